//! Long text of a file on its way to the output, without a copy of it in memory.

use std::io;
use std::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nearfirst::fetch::Source;

use super::super::output::FileOutput;
use super::super::print::rendered::{Form, Quote};
use super::part::seen;

/// Bytes that are written in another form at a time; base64 has no rest of them.
const BLOCK_BYTES: usize = 3 << 18;

/// Zeros in place of a hole.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Writes text of the file. What lies in `holes`, which are in file order, is not read for that.
///
/// # Errors
/// Those of reading, a file that became shorter among them, and those of the output.
pub(super) fn write(
    source: &Source<'_>,
    holes: &[Range<u64>],
    quote: &Quote,
    output: &FileOutput<'_>,
) -> io::Result<()> {
    let all = quote.start..quote.start + quote.length;
    match quote.form {
        // Three bytes are written together, be they zeros or not.
        Form::Base64 => return seen(source, &all, |bytes| encoded(bytes, output))?,
        Form::AsItIs | Form::Json => {}
    }
    let first = holes.partition_point(|hole| hole.end <= all.start);
    let mut at = all.start;
    for hole in holes[first..].iter().take_while(|hole| hole.start < all.end) {
        text(source, at..hole.start.max(at), quote.form, output)?;
        at = hole.end.min(all.end);
        zeros(at - hole.start.max(all.start), quote.form, output)?;
    }
    text(source, at..all.end, quote.form, output)
}

fn text(
    source: &Source<'_>,
    range: Range<u64>,
    form: Form,
    output: &FileOutput<'_>,
) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    seen(source, &range, |bytes| match form {
        Form::Json => escaped(bytes, output),
        Form::AsItIs | Form::Base64 => output.write(bytes),
    })?
}

fn zeros(mut count: u64, form: Form, output: &FileOutput<'_>) -> io::Result<()> {
    let of_one: &[u8] = if form == Form::Json { b"\\u0000" } else { b"\0" };
    let escaped = if form == Form::Json { of_one.repeat(ZEROS.len() / 8) } else { Vec::new() };
    let block = if form == Form::Json { escaped.as_slice() } else { &ZEROS };
    let in_block = (block.len() / of_one.len()) as u64;
    while count > 0 {
        let now = count.min(in_block);
        let bytes = usize::try_from(now).expect("at most a block") * of_one.len();
        output.write(&block[..bytes])?;
        count -= now;
    }
    Ok(())
}

fn escaped(mut bytes: &[u8], output: &FileOutput<'_>) -> io::Result<()> {
    let mut block = Vec::new();
    while !bytes.is_empty() {
        let mut end = bytes.len().min(BLOCK_BYTES);
        while end < bytes.len() && end > 0 && bytes[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        let text = std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| io::Error::other("changed while being read"))?;
        block.clear();
        serde_json::to_writer(&mut block, text)?;
        output.write(&block[1..block.len() - 1])?;
        bytes = &bytes[end..];
    }
    Ok(())
}

fn encoded(bytes: &[u8], output: &FileOutput<'_>) -> io::Result<()> {
    bytes
        .chunks(BLOCK_BYTES)
        .try_for_each(|block| output.write(BASE64_STANDARD.encode(block).as_bytes()))
}
