//! FNV-1a of 64 bits, of bytes and of words. It detects damage, not forgery, and is the same on every machine.

pub(crate) const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn multiplied(hash: u64) -> u64 {
    hash.wrapping_mul(0x0100_0000_01b3)
}

/// Returns the hash of bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(BASIS, |hash, &byte| multiplied(hash ^ u64::from(byte)))
}

/// Returns a hash of words with one more. The shift brings a word's upper bits down, which the product only moves up.
pub(crate) fn with_word(hash: u64, word: u64) -> u64 {
    let hash = multiplied(hash ^ word);
    hash ^ (hash >> 29)
}

/// Returns the hash of words of eight bytes.
pub fn of_words(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(BASIS, with_word)
}
