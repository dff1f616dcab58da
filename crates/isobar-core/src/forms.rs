//! Options that a case file may give in several forms.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// A value that is not written as a list, or not as a table.
type Never = ();

/// The forms in which an option of type V may be written: a word, a number, a list of type L, a table of type M. A form without
/// a reader is an error that lists the valid ones.
///
/// ```
/// use isobar_core::forms::Forms;
///
/// let forms = Forms::<Option<usize>> {
///     word: |word| (word == "auto").then_some(None),
///     whole: |count| Some(Some(count)),
///     ..Forms::new("a whole number, or \"auto\"")
/// };
/// # use serde::de::IntoDeserializer;
/// # let number: serde::de::value::U64Deserializer<serde::de::value::Error> = 3u64.into_deserializer();
/// assert_eq!(forms.read(number), Ok(Some(3)));
/// ```
#[derive(Debug)]
pub struct Forms<V, L = Never, M = Never> {
    /// The forms, in words; without any, they are the names.
    pub expected: &'static str,
    /// Reads a word; nothing for one that is not known.
    pub word: fn(&str) -> Option<V>,
    /// The valid words, for the message about an unknown one.
    pub names: &'static [&'static str],
    /// Reads a whole number, 0 or more.
    pub whole: fn(usize) -> Option<V>,
    /// Reads any number, also a whole one.
    pub number: fn(f64) -> Option<V>,
    /// Reads a list, or returns what is wrong with it.
    pub list: Option<fn(L) -> Result<V, String>>,
    /// Reads a table, or returns what is wrong with it.
    pub table: Option<fn(M) -> Result<V, String>>,
}

impl<V, L, M> Forms<V, L, M> {
    /// Makes the description of an option that is one of these words.
    pub const fn one_of(names: &'static [&'static str], word: fn(&str) -> Option<V>) -> Self {
        Self { word, names, ..Self::new("") }
    }

    /// Makes the description of an option that has no form yet.
    pub const fn new(expected: &'static str) -> Self {
        Self { expected, word: |_| None, names: &[], whole: |_| None, number: |_| None, list: None, table: None }
    }

    /// Reads a value in any of the forms.
    ///
    /// # Errors
    /// A value in another form, and the errors of the forms themselves.
    pub fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<V, D::Error>
    where
        L: Deserialize<'de>,
        M: Deserialize<'de>,
    {
        deserializer.deserialize_any(self)
    }
}

impl<'de, V, L: Deserialize<'de>, M: Deserialize<'de>> Visitor<'de> for Forms<V, L, M> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected {
            "" => write!(f, "one of \"{}\"", self.names.join("\", \"")),
            expected => f.write_str(expected),
        }
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<V, E> {
        (self.word)(word).ok_or_else(|| match self.names {
            [] => E::invalid_value(Unexpected::Str(word), &self),
            names => E::unknown_variant(word, names),
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V, E> {
        let whole = usize::try_from(number).ok().and_then(self.whole);
        whole
            .or_else(|| (self.number)(number as f64))
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V, E> {
        let whole = usize::try_from(number).ok().and_then(self.whole);
        whole
            .or_else(|| (self.number)(number as f64))
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<V, E> {
        (self.number)(number).ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V, A::Error> {
        let Some(read) = self.list else { return Err(A::Error::invalid_type(Unexpected::Seq, &self)) };
        read(L::deserialize(SeqAccessDeserializer::new(list))?).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<V, A::Error> {
        let Some(read) = self.table else { return Err(A::Error::invalid_type(Unexpected::Map, &self)) };
        read(M::deserialize(MapAccessDeserializer::new(table))?).map_err(A::Error::custom)
    }
}
