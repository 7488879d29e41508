//! Matching lines as JSON messages, in the form that ripgrep documents.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use grep::matcher::Matcher;

use super::found::Found;
use super::rendered::{Form, InFile, Mark, QUOTED_BYTES_MIN, Rendered, push_decimal};
use super::tally::Stats;

/// Prints the messages about one file.
#[derive(Debug)]
pub(in crate::grep) struct JsonPrinter<'a> {
    pub(in crate::grep) path: &'a [u8],
    pub(in crate::grep) out: &'a mut Rendered,
    /// Leave places for line numbers.
    pub(in crate::grep) relative: bool,
}

/// A line as the search hands it over.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) struct JsonLine<'a> {
    pub(in crate::grep) kind: &'static str,
    pub(in crate::grep) bytes: &'a [u8],
    /// As `bytes`, or with fewer zeros: if one is UTF-8, so is the other.
    pub(in crate::grep) short: &'a [u8],
    pub(in crate::grep) offset: u64,
    pub(in crate::grep) number: Option<u64>,
}

impl JsonPrinter<'_> {
    /// The message that opens a file with matches.
    pub(in crate::grep) fn begin(&mut self) -> io::Result<()> {
        self.put(b"{\"type\":\"begin\",\"data\":{\"path\":");
        self.data(self.path, None)?;
        self.put(b"}}\n");
        Ok(())
    }

    /// A matching line or a line of context.
    pub(in crate::grep) fn line<M: Matcher>(
        &mut self,
        line: &JsonLine<'_>,
        found: &Found<M>,
    ) -> io::Result<()> {
        let in_file = self.relative.then_some(InFile { text: line.bytes, offset: line.offset });
        self.put(b"{\"type\":\"");
        self.put(line.kind.as_bytes());
        self.put(b"\",\"data\":{\"path\":");
        self.data(self.path, None)?;
        self.put(b",\"lines\":");
        self.line_data(line.bytes, line.short, in_file)?;
        self.put(b",\"line_number\":");
        match line.number {
            None => self.put(b"null"),
            Some(number) if self.relative => {
                self.out.marks.push(Mark { at: self.out.bytes.len(), line: number });
            }
            Some(number) => push_decimal(&mut self.out.bytes, number),
        }
        self.put(b",\"absolute_offset\":");
        push_decimal(&mut self.out.bytes, line.offset);
        self.put(b",\"submatches\":[");
        for (index, m) in found.matches().iter().enumerate() {
            self.put(if index == 0 { b"{\"match\":" } else { b",{\"match\":" });
            self.data(&line.bytes[*m], in_file)?;
            if let Some(replacement) = found.replacement(index) {
                self.put(b",\"replacement\":");
                self.data(replacement, None)?;
            }
            write!(self.out.bytes, ",\"start\":{},\"end\":{}}}", m.start(), m.end())?;
        }
        self.put(b"]}}\n");
        Ok(())
    }

    /// The message that closes a file with matches.
    pub(in crate::grep) fn end(
        &mut self,
        binary_offset: Option<u64>,
        stats: &Stats,
    ) -> io::Result<()> {
        self.put(b"{\"type\":\"end\",\"data\":{\"path\":");
        self.data(self.path, None)?;
        self.put(b",\"binary_offset\":");
        match binary_offset {
            None => self.put(b"null"),
            Some(offset) => push_decimal(&mut self.out.bytes, offset),
        }
        self.put(b",\"stats\":");
        stats.write_json(&mut self.out.bytes)?;
        self.put(b"}}\n");
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out.bytes.extend_from_slice(bytes);
    }

    /// Text, or bytes in base64 where they are not UTF-8.
    fn data(&mut self, bytes: &[u8], in_file: Option<InFile<'_>>) -> io::Result<()> {
        self.line_data(bytes, bytes, in_file)
    }

    /// As [`JsonPrinter::data`], where `short` shows what `bytes` are.
    fn line_data(
        &mut self,
        bytes: &[u8],
        short: &[u8],
        in_file: Option<InFile<'_>>,
    ) -> io::Result<()> {
        let in_file = in_file.filter(|_| bytes.len() >= QUOTED_BYTES_MIN);
        if let Ok(text) = std::str::from_utf8(short) {
            self.put(b"{\"text\":");
            if in_file.is_some() {
                self.put(b"\"");
                self.out.quote(bytes, in_file, Form::Json);
                self.put(b"\"");
            } else {
                serde_json::to_writer(&mut self.out.bytes, text)?;
            }
        } else {
            self.put(b"{\"bytes\":\"");
            if !self.out.quote(bytes, in_file, Form::Base64) {
                self.put(BASE64_STANDARD.encode(bytes).as_bytes());
            }
            self.put(b"\"");
        }
        self.put(b"}");
        Ok(())
    }
}
