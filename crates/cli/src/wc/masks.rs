//! What the 64 bytes of a block are, as bit masks: the only code here that depends on the processor.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code for AVX2 once the processor is known to have it")
)]

/// Bytes in a block: one bit each in a mask.
pub(super) const BLOCK: usize = 64;

/// In Latin-1, and to GNU wc in the C locale.
const NO_BREAK_SPACE: u8 = 0xa0;

/// One bit per byte of a block, the first byte lowest.
///
/// What is over 0x7f is in one mask only: what it is depends on its neighbours and the locale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    /// ASCII white space; all else is part of words.
    pub(super) space: u64,
    /// What fills a column: printable ASCII, the blank included.
    pub(super) visible: u64,
    /// White space except the blank: what may change the column otherwise.
    pub(super) breaks: u64,
    /// The newline.
    pub(super) newline: u64,
    /// Bytes over 0x7f.
    pub(super) high: u64,
}

/// Where multi-byte characters of UTF-8 may start in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leads {
    /// Bytes that only stand inside of a character.
    pub(super) continues: u64,
    /// Leads of two bytes.
    pub(super) two: u64,
    /// Leads of three bytes after which any two bytes that continue will do.
    pub(super) three: u64,
    /// Other bytes over 0x7f: leads that ask for more, or none at all.
    pub(super) other: u64,
}

/// The [`Leads`] of one block.
pub(super) fn leads(block: &[u8; BLOCK]) -> Leads {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just asked.
        return unsafe { avx2::leads(block) };
    }
    leads_portable(block)
}

/// The bytes of a block that are the no-break space of Latin-1.
pub(super) fn no_break_spaces(block: &[u8; BLOCK]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just asked.
        return unsafe { avx2::no_break_spaces(block) };
    }
    no_break_spaces_portable(block)
}

fn no_break_spaces_portable(block: &[u8; BLOCK]) -> u64 {
    let bits = block.iter().enumerate();
    bits.fold(0, |mask, (at, &byte)| mask | u64::from(byte == NO_BREAK_SPACE) << at)
}

fn leads_portable(block: &[u8; BLOCK]) -> Leads {
    let mut leads = Leads::default();
    for (at, &byte) in block.iter().enumerate() {
        let bit = 1 << at;
        match byte {
            0..=0x7f => {}
            0x80..=0xbf => leads.continues |= bit,
            0xc2..=0xdf => leads.two |= bit,
            0xe1..=0xec | 0xee..=0xef => leads.three |= bit,
            _ => leads.other |= bit,
        }
    }
    leads
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
                b'\t'..=b'\r' => {
                    out.space |= bit;
                    out.breaks |= bit;
                }
                b' ' => {
                    out.space |= bit;
                    out.visible |= bit;
                }
                b'!'..=b'~' => out.visible |= bit,
                0x80.. => out.high |= bit,
                _ => {}
            }
            if byte == b'\n' {
                out.newline |= bit;
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

    use super::{BLOCK, Leads, Masks, NO_BREAK_SPACE};

    #[target_feature(enable = "avx2")]
    pub(super) fn fill(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
        for (block, out) in blocks.iter().zip(masks) {
            let (low, high) = load(block);
            let (low, high) = (half(low), half(high));
            *out = Masks {
                space: join(low.space, high.space),
                visible: join(low.visible, high.visible),
                breaks: join(low.breaks, high.breaks),
                newline: join(low.newline, high.newline),
                high: join(low.high, high.high),
            };
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn leads(block: &[u8; BLOCK]) -> Leads {
        let (low, high) = load(block);
        let (low, high) = (half_leads(low), half_leads(high));
        Leads {
            continues: join(low.continues, high.continues),
            two: join(low.two, high.two),
            three: join(low.three, high.three),
            other: join(low.other, high.other),
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn no_break_spaces(block: &[u8; BLOCK]) -> u64 {
        let (low, high) = load(block);
        let half = |bytes| mask(_mm256_cmpeq_epi8(bytes, byte(NO_BREAK_SPACE)));
        join(half(low), half(high))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(block: &[u8; BLOCK]) -> (__m256i, __m256i) {
        let (low, high) = block.split_at(BLOCK / 2);
        // SAFETY: each half of the block is 32 bytes long, and the load asks for no alignment.
        unsafe {
            (_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast()))
        }
    }

    struct HalfLeads {
        continues: u32,
        two: u32,
        three: u32,
        other: u32,
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half_leads(bytes: __m256i) -> HalfLeads {
        // Signed, so that from 0x80 on all is below zero and in its order.
        let below = |end: u8| mask(_mm256_cmpgt_epi8(byte(end), bytes));
        let is = |value: u8| mask(_mm256_cmpeq_epi8(bytes, byte(value)));
        let continues = below(0xc0);
        let two = below(0xe0) & !below(0xc2);
        let three = below(0xf0) & !below(0xe0) & !is(0xe0) & !is(0xed);
        HalfLeads { continues, two, three, other: mask(bytes) & !(continues | two | three) }
    }

    struct Half {
        space: u32,
        visible: u32,
        breaks: u32,
        newline: u32,
        high: u32,
    }

    fn join(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half(bytes: __m256i) -> Half {
        // Tab to carriage return are 9 to 13: 0 to 4 once moved down, and all else is more.
        let moved = _mm256_add_epi8(bytes, byte(b'\t'.wrapping_neg()));
        let breaks = _mm256_cmpeq_epi8(_mm256_min_epu8(moved, byte(4)), moved);
        let blank = _mm256_cmpeq_epi8(bytes, byte(b' '));
        // Signed: bytes over 0x7f are negative.
        let above = _mm256_cmpgt_epi8(bytes, byte(b' ' - 1));
        let delete = _mm256_cmpeq_epi8(bytes, byte(0x7f));
        Half {
            space: mask(_mm256_or_si256(blank, breaks)),
            visible: mask(_mm256_andnot_si256(delete, above)),
            breaks: mask(breaks),
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
            assert_eq!(leads(&block), leads_portable(&block), "block starting with {turn:#x}");
            let expected = no_break_spaces_portable(&block);
            assert_eq!(no_break_spaces(&block), expected, "block starting with {turn:#x}");
        }
    }
}
