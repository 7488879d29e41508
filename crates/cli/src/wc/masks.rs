//! What the 64 bytes of a block are, as bit masks: the only code here that depends on the processor.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code for AVX2 once the processor is known to have it")
)]

/// Bytes in a block: one bit each in a mask.
pub(super) const BLOCK: usize = 64;

/// One bit per byte of a block, the first byte lowest.
///
/// A byte that is neither part of a word nor space (a control character, or any byte over 0x7f)
/// is in neither mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    /// Printable ASCII except the blank.
    pub(super) word: u64,
    /// ASCII white space.
    pub(super) space: u64,
    /// The blank, 0x20.
    pub(super) blank: u64,
    /// The newline.
    pub(super) newline: u64,
    /// Bytes over 0x7f.
    pub(super) high: u64,
}

/// Fills one [`Masks`] per block.
///
/// # Panics
/// When the two slices differ in length.
pub(super) fn fill(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    assert_eq!(blocks.len(), masks.len(), "one mask per block");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just asked.
        unsafe { avx2::fill(blocks, masks) };
        return;
    }
    fill_portable(blocks, masks);
}

fn fill_portable(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    for (block, out) in blocks.iter().zip(masks) {
        *out = Masks::default();
        for (at, &byte) in block.iter().enumerate() {
            let bit = 1 << at;
            match byte {
                b'\n' => {
                    out.newline |= bit;
                    out.space |= bit;
                }
                b'\t' | b'\x0b' | b'\x0c' | b'\r' => out.space |= bit,
                b' ' => {
                    out.blank |= bit;
                    out.space |= bit;
                }
                b'!'..=b'~' => out.word |= bit,
                0x80.. => out.high |= bit,
                _ => {}
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_andnot_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
        _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256,
        _mm256_set1_epi8,
    };

    use super::{BLOCK, Masks};

    #[target_feature(enable = "avx2")]
    pub(super) fn fill(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
        for (block, out) in blocks.iter().zip(masks) {
            let (low, high) = block.split_at(BLOCK / 2);
            // SAFETY: each half of the block is 32 bytes long, and the load asks for no alignment.
            let (low, high) = unsafe {
                (_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast()))
            };
            let (low, high) = (half(low), half(high));
            *out = Masks {
                word: join(low.word, high.word),
                space: join(low.space, high.space),
                blank: join(low.blank, high.blank),
                newline: join(low.newline, high.newline),
                high: join(low.high, high.high),
            };
        }
    }

    struct Half {
        word: u32,
        space: u32,
        blank: u32,
        newline: u32,
        high: u32,
    }

    fn join(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half(bytes: __m256i) -> Half {
        let blank = _mm256_cmpeq_epi8(bytes, byte(b' '));
        // Tab to carriage return are 9 to 13: 0 to 4 once moved down, and all else is more.
        let moved = _mm256_add_epi8(bytes, byte(b'\t'.wrapping_neg()));
        let breaks = _mm256_cmpeq_epi8(_mm256_min_epu8(moved, byte(4)), moved);
        // Signed: bytes over 0x7f are negative and no word either.
        let above = _mm256_cmpgt_epi8(bytes, byte(b' '));
        let delete = _mm256_cmpeq_epi8(bytes, byte(0x7f));
        Half {
            word: mask(_mm256_andnot_si256(delete, above)),
            space: mask(_mm256_or_si256(blank, breaks)),
            blank: mask(blank),
            newline: mask(_mm256_cmpeq_epi8(bytes, byte(b'\n'))),
            high: mask(bytes),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn byte(value: u8) -> __m256i {
        _mm256_set1_epi8(value.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask(bytes: __m256i) -> u32 {
        _mm256_movemask_epi8(bytes).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_on_every_byte_at_every_place() {
        for turn in 0..=255_u8 {
            let block: [u8; BLOCK] = std::array::from_fn(|at| {
                u8::try_from(at).unwrap().wrapping_mul(37).wrapping_add(turn)
            });
            let (mut fast, mut slow) = ([Masks::default()], [Masks::default()]);
            fill(&[block], &mut fast);
            fill_portable(&[block], &mut slow);
            assert_eq!(fast, slow, "block starting with {turn:#x}");
        }
    }
}
