//! Transposes of square blocks in registers.

use pulp::Simd;

/// The most lanes of a register.
pub(super) const MOST_LANES: usize = 8;

/// Exchanges lane r of pack c with lane c of pack r; only as many packs as there are lanes count.
#[inline(always)]
pub(super) fn transposed<S: Simd>(tile: [S::f64s; MOST_LANES]) -> [S::f64s; MOST_LANES] {
    #[cfg(target_arch = "x86_64")]
    {
        // Only AVX-512 has registers of this width.
        if S::F64_LANES == 8 {
            // SAFETY: the processor has the instructions of these registers, and the types have one size.
            return unsafe { std::mem::transmute_copy(&x86::eight(std::mem::transmute_copy(&tile))) };
        }
        if S::F64_LANES == 4 {
            let mut out = tile;
            let [a, b, c, d, ..] = tile;
            // SAFETY: as above.
            let four = unsafe { x86::four(std::mem::transmute_copy(&[a, b, c, d])) };
            for (out, pack) in out.iter_mut().zip(four) {
                // SAFETY: as above.
                *out = unsafe { std::mem::transmute_copy(&pack) };
            }
            return out;
        }
    }
    let lanes = S::F64_LANES;
    let (mut from, mut to) = ([0.0; MOST_LANES * MOST_LANES], [0.0; MOST_LANES * MOST_LANES]);
    S::as_mut_simd_f64s(&mut from).0[..lanes].copy_from_slice(&tile[..lanes]);
    for (r, c) in (0..lanes).flat_map(|r| (0..lanes).map(move |c| (r, c))) {
        to[c * lanes + r] = from[r * lanes + c];
    }
    let mut out = tile;
    out[..lanes].copy_from_slice(&S::as_simd_f64s(&to).0[..lanes]);
    out
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256d, __m512d, _mm256_permute2f128_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd, _mm512_shuffle_f64x2,
        _mm512_unpackhi_pd, _mm512_unpacklo_pd,
    };

    /// # Safety
    /// The processor has AVX-512F.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn eight(r: [__m512d; 8]) -> [__m512d; 8] {
        let mut out = r;
        for odd in 0..2 {
            // Columns 0, 2, 4, 6 of two rows, or 1, 3, 5, 7, with a pair of numbers in each quarter of a register.
            let mut pairs = [r[0]; 4];
            for n in 0..4 {
                let (a, b) = (r[2 * n], r[2 * n + 1]);
                pairs[n] = if odd == 1 { _mm512_unpackhi_pd(a, b) } else { _mm512_unpacklo_pd(a, b) };
            }
            let [a, b, c, d] = pairs;
            // Columns c, c + 4, c, c + 4 of four rows.
            let [low, high] = [_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0x88>(c, d)];
            out[odd] = _mm512_shuffle_f64x2::<0x88>(low, high);
            out[odd + 4] = _mm512_shuffle_f64x2::<0xdd>(low, high);
            let [low, high] = [_mm512_shuffle_f64x2::<0xdd>(a, b), _mm512_shuffle_f64x2::<0xdd>(c, d)];
            out[odd + 2] = _mm512_shuffle_f64x2::<0x88>(low, high);
            out[odd + 6] = _mm512_shuffle_f64x2::<0xdd>(low, high);
        }
        out
    }

    /// # Safety
    /// The processor has AVX.
    #[inline]
    #[target_feature(enable = "avx")]
    pub(super) fn four(r: [__m256d; 4]) -> [__m256d; 4] {
        let [a, b] = [_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1])];
        let [c, d] = [_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3])];
        [
            _mm256_permute2f128_pd::<0x20>(a, c),
            _mm256_permute2f128_pd::<0x20>(b, d),
            _mm256_permute2f128_pd::<0x31>(a, c),
            _mm256_permute2f128_pd::<0x31>(b, d),
        ]
    }
}
