//! What a line of strace says.

use std::borrow::Cow;
use std::time::Duration;

/// A line with its thread and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// 0 if the line names none.
    pub(super) thread: u64,
    pub(super) at: Duration,
    pub(super) said: Said<'a>,
}

/// What happened, as far as one line tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// The thread is no more.
    Ended,
    /// The thread goes on as this other one, which had called execve.
    Superseded(u64),
    /// A call whose end is on a later line.
    Begun(&'a [u8]),
    /// The rest of such a call.
    Resumed { name: &'a [u8], rest: &'a [u8] },
    /// A whole call.
    Call(&'a [u8]),
}

/// The lines without strace's own word of whom it follows from now on, which it writes in the middle
/// of a line where it writes to a terminal or a pipe.
pub(super) fn whole(text: &[u8]) -> Cow<'_, [u8]> {
    let lines = || text.split_inclusive(|&byte| byte == b'\n');
    if lines().all(|line| before_word(line).is_none()) {
        return text.into();
    }
    lines().flat_map(|line| before_word(line).unwrap_or(line)).copied().collect::<Vec<_>>().into()
}

/// What comes before `strace: Process 7 attached`, if a line ends so.
fn before_word(line: &[u8]) -> Option<&[u8]> {
    let said = line.strip_suffix(b" attached\n")?;
    let process = said.iter().rposition(|byte| !byte.is_ascii_digit())? + 1;
    said[..process].strip_suffix(b"strace: Process ")
}

/// Takes a line apart; `None` if it is about something else.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (mut thread, rest) = by_thread(line)?;
    let (mut word, mut after) = word(rest);
    if !word.contains(&b'.') {
        thread = number(word)?;
        (word, after) = self::word(after);
    }
    let at = seconds(word)?;
    Some(Line { thread, at, said: said(after)? })
}

/// Whether a line says of a call what came back, with or without a time.
pub(super) fn is_of_call(line: &[u8]) -> bool {
    let Some((_, mut text)) = by_thread(line) else { return false };
    // Of a thread without brackets the number, and times of other kinds.
    while text.first().is_some_and(u8::is_ascii_digit) {
        text = word(text).1;
    }
    let came_back = |text| call(text).is_some_and(|call| call.result.is_some());
    matches!(said(text), Some(Said::Call(text)) if came_back(text))
}

/// The thread that `[pid N]` names, 0 without it, and the rest of the line.
fn by_thread(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.trim_ascii();
    let Some(inside) = rest.strip_prefix(b"[pid") else { return Some((0, rest)) };
    let end = inside.iter().position(|&byte| byte == b']')?;
    Some((number(inside[..end].trim_ascii())?, inside[end + 1..].trim_ascii_start()))
}

fn said(mut text: &[u8]) -> Option<Said<'_>> {
    // The number of the call, or where it was made (`-n`, `-i`).
    while let Some(inside) = text.strip_prefix(b"[") {
        let end = inside.iter().position(|&byte| byte == b']')?;
        text = inside[end + 1..].trim_ascii_start();
    }
    if let Some(end) = text.strip_prefix(b"+++ ") {
        if let Some(other) = end.strip_prefix(b"superseded by execve in pid ") {
            return Some(Said::Superseded(number(word(other).0)?));
        }
        let ended = end.starts_with(b"exited with") || end.starts_with(b"killed by");
        return ended.then_some(Said::Ended);
    }
    if text.starts_with(b"---") {
        return None;
    }
    if let Some(resumed) = text.strip_prefix(b"<... ") {
        let mark = b" resumed>";
        let end = resumed.windows(mark.len()).position(|part| part == mark)?;
        return Some(Said::Resumed { name: &resumed[..end], rest: &resumed[end + mark.len()..] });
    }
    match text.strip_suffix(b"<unfinished ...>") {
        Some(begun) => Some(Said::Begun(begun.trim_ascii_end())),
        // What has no bracket is of a summary (`-C`).
        None => text.contains(&b'(').then_some(Said::Call(text)),
    }
}

impl Said<'_> {
    /// The number of the thread that a call made, whose end this is.
    pub(super) fn made(&self) -> Option<u64> {
        let made = |text: &[u8]| call(text)?.result.map(|result| result.number);
        match self {
            Self::Call(text) if is_fork(text) => made(text),
            // What the beginning has is not needed.
            Self::Resumed { name, rest } if FORKS.contains(name) => {
                made(&[name, &b"("[..], rest].concat())
            }
            _ => None,
        }
    }
}

const FORKS: [&[u8]; 4] = [b"fork", b"vfork", b"clone", b"clone3"];

/// Whether a call, or the beginning of one, makes a process or a thread.
pub(super) fn is_fork(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'(').next().is_some_and(|name| FORKS.contains(&name))
}

fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

fn number(digits: &[u8]) -> Option<u64> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| all)?.parse().ok()
}

/// Seconds since 1970 (`-ttt`) or, in hours, minutes and seconds, since midnight (`-tt`).
fn seconds(text: &[u8]) -> Option<Duration> {
    let mut units = text.rsplitn(3, |&byte| byte == b':');
    let mut all = fraction(units.next()?)?;
    for (unit, seconds) in units.zip([60, 60 * 60]) {
        all = all.checked_add(Duration::from_secs(number(unit)?.checked_mul(seconds)?))?;
    }
    Some(all)
}

fn fraction(text: &[u8]) -> Option<Duration> {
    let point = text.iter().position(|&byte| byte == b'.')?;
    let (whole, part) = (number(&text[..point])?, &text[point + 1..]);
    let digits = u32::try_from(part.len()).ok().filter(|&digits| digits <= 9)?;
    let nanos = number(part)? * 10_u64.pow(9 - digits);
    Some(Duration::new(whole, u32::try_from(nanos).ok()?))
}

/// A call that came back with a number.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) name: &'a [u8],
    pub(super) arguments: Vec<Argument<'a>>,
    /// `None` if it failed or did not come back.
    pub(super) result: Option<Result<'a>>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Result<'a> {
    pub(super) number: u64,
    path: Option<&'a [u8]>,
}

impl Result<'_> {
    /// The name that `-y` gave to a descriptor.
    pub(super) fn path(&self) -> Option<Vec<u8>> {
        self.path.map(unescaped)
    }
}

/// One argument as strace wrote it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument<'a> {
    pub(super) text: &'a [u8],
}

/// Takes a whole call apart.
pub(super) fn call(text: &[u8]) -> Option<Call<'_>> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let name = &text[..open];
    let mut parts = Parts { rest: &text[open + 1..] };
    let mut arguments = Vec::new();
    let end = loop {
        let (argument, end) = parts.next()?;
        arguments.push(Argument { text: argument });
        if end != b',' {
            break end;
        }
    };
    if end != b')' {
        return None;
    }
    let result = parts.rest.trim_ascii_start().strip_prefix(b"=").map(<[u8]>::trim_ascii_start);
    Some(Call { name, arguments, result: result.and_then(self::result) })
}

fn result(text: &[u8]) -> Option<Result<'_>> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let number = number(&text[..end])?;
    let path = text[end..].strip_prefix(b"<").and_then(until_closed);
    Some(Result { number, path })
}

/// What is before the `>`, which strace escapes within names.
fn until_closed(text: &[u8]) -> Option<&[u8]> {
    text.iter().position(|&byte| byte == b'>').map(|end| &text[..end])
}

/// Splits at commas that are not within quotes, brackets or names of descriptors.
struct Parts<'a> {
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The next part and the byte that ended it: a comma or a closing bracket.
    fn next(&mut self) -> Option<(&'a [u8], u8)> {
        let text = self.rest;
        let mut depth = 0_usize;
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'"' => at += quoted(&text[at..])?,
                b'<' => at += 1 + until_closed(&text[at + 1..])?.len(),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' | b',' if depth == 0 => {
                    self.rest = &text[at + 1..];
                    return Some((text[..at].trim_ascii(), byte));
                }
                b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// How far behind the opening quote, which `text` begins with, the closing one is.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

impl Argument<'_> {
    /// The bytes of a quoted string; `None` of an address, or of a string that was cut.
    pub(super) fn string(&self) -> Option<Vec<u8>> {
        let end =
            self.text.first().filter(|&&byte| byte == b'"').and_then(|_| quoted(self.text))?;
        (end + 1 == self.text.len()).then(|| unescaped(&self.text[1..end]))
    }

    /// The strings of a list; those that were cut as far as they go.
    pub(super) fn list(&self) -> Vec<Vec<u8>> {
        let Some(inside) = self.text.strip_prefix(b"[") else { return Vec::new() };
        let mut parts = Parts { rest: inside };
        let mut strings = Vec::new();
        while let Some((part, end)) = parts.next() {
            if part.first() == Some(&b'"')
                && let Some(close) = quoted(part)
            {
                strings.push(unescaped(&part[1..close]));
            }
            if end != b',' {
                break;
            }
        }
        strings
    }

    /// The descriptor: a number, if it is not `AT_FDCWD`, and the name that `-y` gave it.
    pub(super) fn descriptor(&self) -> (Option<u64>, Option<Vec<u8>>) {
        let end = self.text.iter().position(|&byte| byte == b'<').unwrap_or(self.text.len());
        let path = self.text[end..].strip_prefix(b"<").and_then(until_closed);
        (number(&self.text[..end]), path.map(unescaped))
    }
}

/// C's escapes, as strace writes them: letters, octal numbers, and hexadecimal ones with `-x`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, after) = escape(rest);
        bytes.extend(byte);
        rest = after;
    }
    bytes
}

fn escape(text: &[u8]) -> (Option<u8>, &[u8]) {
    let digits = |text: &[u8], radix: u32, most: usize| {
        let is_digit = |&&byte: &&u8| char::from(byte).is_digit(radix);
        text.iter().take(most).take_while(is_digit).count()
    };
    let value = |text: &[u8], radix: u32| {
        let value =
            |sum: u32, &byte: &u8| sum * radix + char::from(byte).to_digit(radix).unwrap_or(0);
        u8::try_from(text.iter().fold(0, value)).ok()
    };
    match text {
        [] => (Some(b'\\'), text),
        [b'x', hex @ ..] => {
            let length = digits(hex, 16, 2);
            (value(&hex[..length], 16), &hex[length..])
        }
        [b'0'..=b'7', ..] => {
            let length = digits(text, 8, 3);
            (value(&text[..length], 8), &text[length..])
        }
        [letter, rest @ ..] => {
            let byte = match letter {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0b,
                b'f' => 0x0c,
                other => *other,
            };
            (Some(byte), rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_c() {
        assert_eq!(unescaped(br#"a\n\t\"\\\0\12x\377\x41\76"#), b"a\n\t\"\\\0\nx\xff\x41>");
        assert_eq!(unescaped(b"cut\\"), b"cut\\");
    }

    #[test]
    fn arguments_end_at_commas_of_their_own() {
        let text = br#"execve("/a,b", ["x, )", "]"...], 0x7f /* 3 vars */) = 0"#;
        let call = call(text).unwrap();
        assert_eq!(call.arguments.len(), 3);
        assert_eq!(call.arguments[0].string().unwrap(), b"/a,b");
        assert_eq!(call.arguments[1].list(), [b"x, )".to_vec(), b"]".to_vec()]);
        assert_eq!(call.result.unwrap().number, 0);
    }

    #[test]
    fn what_failed_or_was_cut_has_no_result() {
        assert!(
            call(b"open(\"/a\", O_RDONLY) = -1 ENOENT (No such file)").unwrap().result.is_none()
        );
        assert!(call(b"exit_group(0) = ?").unwrap().result.is_none());
        assert!(call(b"open(\"/a\", O_RD").is_none());
    }
}
