//! Shows files: `-print`, `-printf`, `-ls`.

use std::borrow::Cow;
use std::ffi::CStr;

use rustix::fd::BorrowedFd;
use rustix::fs::Statx;
use rustix::io::Errno;

use super::cost;
use super::entry::{Entry, Stalled, stat_target, time_of};
use super::expr::Stamp;
use super::mode;
use super::printf::{Field, Layout, Piece};
use super::quote::{escaped, harmless};
use super::session::Session;

/// `-print`: the path and an end byte.
pub(crate) fn path(output: usize, end: u8, entry: &Entry<'_>, session: &mut Session<'_>) {
    if session.at_terminal(output) && end != 0 {
        session.write(output, &harmless(entry.path));
    } else {
        session.write(output, entry.path);
    }
    session.write(output, &[end]);
}

/// `-printf`; false, and nothing printed, where a field needs properties or a type that cannot be had.
pub(crate) fn format(
    output: usize,
    pieces: &[Piece],
    entry: &mut Entry<'_>,
    session: &mut Session<'_>,
) -> bool {
    let has = |needs: fn(Field) -> bool| {
        pieces.iter().any(|piece| matches!(piece, Piece::Field(_, field) if needs(*field)))
    };
    if has(Field::needs_properties) && entry.meta(session).is_err() {
        return false;
    }
    if has(Field::needs_type) && entry.kind(session) == 0 {
        return false;
    }
    for piece in pieces {
        match piece {
            Piece::Literal(text) => session.write(output, text),
            Piece::Stop => {
                session.flush();
                return true;
            }
            Piece::Field(layout, field) => {
                // A time that the file system does not keep is empty.
                let value = value(*field, entry, session).unwrap_or(Value::text(""));
                let text = value.laid_out(layout);
                let terminal = session.at_terminal(output);
                let text = if terminal && value.is_name { harmless(&text).into() } else { text };
                session.write(output, &text);
            }
        }
    }
    true
}

/// What a field shows, before it is laid out.
struct Value<'a> {
    text: Cow<'a, [u8]>,
    number: Option<Number>,
    is_name: bool,
}

/// Fields that C's `printf` shows as numbers; GNU find shows all others as text.
#[derive(Clone, Copy)]
enum Number {
    Decimal,
    Octal,
    Real(f64),
}

impl<'a> Value<'a> {
    fn text(text: impl Into<String>) -> Self {
        Self { text: Cow::Owned(text.into().into_bytes()), number: None, is_name: false }
    }

    fn name(text: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { text: text.into(), number: None, is_name: true }
    }

    fn number(text: impl Into<String>, number: Number) -> Self {
        Self { number: Some(number), ..Self::text(text) }
    }

    fn laid_out(&self, layout: &Layout) -> Cow<'_, [u8]> {
        let mut text = match (self.number, layout.precision) {
            (None, Some(precision)) => Cow::Borrowed(&self.text[..precision.min(self.text.len())]),
            (Some(Number::Real(value)), precision) => {
                Cow::Owned(general(value, precision.unwrap_or(6), layout.alternate).into_bytes())
            }
            _ => Cow::Borrowed(&self.text[..]),
        };
        if let Some(number) = self.number {
            if let (Number::Decimal | Number::Octal, Some(precision)) = (number, layout.precision) {
                // As C has it: no digit of nothing.
                if precision == 0 && *text == *b"0" {
                    text = Cow::Borrowed(b"");
                }
                pad(text.to_mut(), 0, precision, b'0');
            }
            match number {
                Number::Octal if layout.alternate && text.first() != Some(&b'0') => {
                    text.to_mut().insert(0, b'0');
                }
                Number::Decimal | Number::Real(_) if layout.plus => text.to_mut().insert(0, b'+'),
                Number::Decimal | Number::Real(_) if layout.space => text.to_mut().insert(0, b' '),
                _ => {}
            }
        }
        if layout.left {
            let missing = layout.width.saturating_sub(text.len());
            if missing > 0 {
                text.to_mut().extend(std::iter::repeat_n(b' ', missing));
            }
        } else {
            let integer = matches!(self.number, Some(Number::Decimal | Number::Octal));
            let zeros =
                layout.zeros && self.number.is_some() && !(integer && layout.precision.is_some());
            let signed = usize::from(matches!(text.first(), Some(b'+' | b' ')) && zeros);
            if text.len() < layout.width {
                pad(text.to_mut(), signed, layout.width, if zeros { b'0' } else { b' ' });
            }
        }
        text
    }
}

/// Fills up to a width at a position.
fn pad(text: &mut Vec<u8>, at: usize, width: usize, with: u8) {
    let missing = width.saturating_sub(text.len());
    text.splice(at..at, std::iter::repeat_n(with, missing));
}

/// A number as C's `%g` shows it, or with `keeps_zeros` its `%#g`.
fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let digits = precision.max(1);
    if !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` has an exponent");
    let exponent: i64 = exponent.parse().expect("`{:e}` has a whole exponent");
    let trim = |text: &str| -> String {
        if keeps_zeros {
            let point = if text.contains('.') { "" } else { "." };
            format!("{text}{point}")
        } else if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    let digits = i64::try_from(digits).unwrap_or(i64::MAX);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    trim(&format!("{value:.decimals$}"))
}

/// The type letter with links treated the other way round: `-xtype`.
pub(crate) fn other_kind(entry: &mut Entry<'_>, session: &mut Session<'_>) -> u8 {
    let kind = entry.kind(session);
    if kind == 0 || (!entry.follow && kind != b'l') {
        return kind;
    }
    match entry.other_meta(session) {
        Ok(Ok(meta)) => mode::type_letter(meta.stx_mode.into()),
        Ok(Err(Errno::NOENT | Errno::NOTDIR)) => b'l',
        Ok(Err(error)) => {
            // What cannot be looked at in either way is told of once.
            if !matches!(entry.known.meta, Some(Err(_))) {
                entry.report(session, error);
            }
            if entry.follow {
                entry.known.meta.get_or_insert(Err(error));
            }
            0
        }
        Err(Stalled) => 0,
    }
}

fn value<'a>(field: Field, entry: &mut Entry<'a>, session: &mut Session<'_>) -> Option<Value<'a>> {
    match field {
        Field::Time(stamp) => {
            let time = time(stamp, entry, session)?;
            Some(Value::text(session.calendar.whole(time)))
        }
        Field::TimePart(stamp, part) => {
            let time = time(stamp, entry, session)?;
            Some(Value::text(session.calendar.part(time, part)))
        }
        Field::Latency => {
            let latency = cost::latency(entry, session);
            Some(Value::text(latency.map_or_else(|| "?".to_owned(), |time| format!("{time:.9}"))))
        }
        Field::Device => Some(Value::text(cost::devices(entry, session).join(","))),
        Field::Letter(letter) => by_name(letter, entry, session)
            .or_else(|| entry.meta(session).ok().and_then(|meta| by_meta(letter, &meta, session))),
    }
}

fn time(stamp: Stamp, entry: &mut Entry<'_>, session: &mut Session<'_>) -> Option<i128> {
    entry.meta(session).ok().and_then(|meta| time_of(&meta, stamp))
}

/// `SELinux` labels are far shorter; the kernel bounds them by a page.
const LABEL_BYTES_MAX: usize = 4096;

/// Fields that need no look at the file, or a special one.
fn by_name<'a>(letter: u8, entry: &mut Entry<'a>, session: &mut Session<'_>) -> Option<Value<'a>> {
    let path = entry.path;
    Some(match letter {
        b'p' => Value::name(path),
        b'f' => Value::name(last_component(path)),
        b'h' => Value::name(leading_directories(path)),
        b'H' => Value::name(&path[..entry.start_len]),
        b'P' => {
            let below = &path[entry.start_len..];
            Value::name(below.strip_prefix(b"/").unwrap_or(below))
        }
        b'd' => Value::number(entry.depth.to_string(), Number::Decimal),
        b'l' => {
            let target =
                if entry.kind(session) == b'l' { entry.link_target(session) } else { None };
            Value::name(target.map_or_else(Vec::new, std::ffi::CString::into_bytes))
        }
        b'y' => Value::text(char::from(entry.kind(session))),
        b'Y' => Value::text(char::from(target_kind(entry, session))),
        b'Z' => {
            let asked = path.to_vec();
            let read = move |_: BorrowedFd<'_>, _: &CStr| {
                let mut label = vec![0; LABEL_BYTES_MAX];
                let len = rustix::fs::lgetxattr(asked, "security.selinux", &mut label[..])?;
                label.truncate(len);
                Ok::<_, Errno>(label)
            };
            let label = entry.call(session, read).unwrap_or(Ok(Vec::new()));
            if let Err(error) = label {
                crate::messages::error(format_args!(
                    "getfilecon failed: {}: {}",
                    super::quote::quoted(path),
                    crate::messages::reason(&error.into())
                ));
            }
            let mut label = label.unwrap_or_default();
            label.retain(|&byte| byte != 0);
            Value::name(label)
        }
        _ => return None,
    })
}

fn target_kind(entry: &mut Entry<'_>, session: &mut Session<'_>) -> u8 {
    if entry.kind(session) != b'l' {
        return entry.kind(session);
    }
    session.stats.looks += 1;
    match entry.call_behind(session, stat_target) {
        Ok(Ok(meta)) => mode::type_letter(meta.stx_mode.into()),
        Ok(Err(Errno::NOENT | Errno::NOTDIR)) => b'N',
        Ok(Err(Errno::LOOP)) => b'L',
        Ok(Err(error)) => {
            entry.report(session, error);
            b'?'
        }
        Err(Stalled) => b'?',
    }
}

/// What stands before the last component. A component of one letter keeps the slashes after it,
/// as in GNU find: `d/` is in `d`, but `dd/` in `.`.
fn leading_directories(path: &[u8]) -> &[u8] {
    let path = match path.iter().rposition(|&byte| byte != b'/') {
        Some(last) if last > 0 => &path[..=last],
        _ => path,
    };
    memchr::memrchr(b'/', path).map_or(b".", |slash| &path[..slash])
}

/// The last component with at most one slash after it.
fn last_component(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let start = memchr::memrchr(b'/', &path[..end]).map_or(0, |slash| slash + 1);
    &path[start..path.len().min(end + 1)]
}

fn by_meta<'a>(letter: u8, meta: &Statx, session: &mut Session<'_>) -> Option<Value<'a>> {
    let mode = u32::from(meta.stx_mode);
    let or_id = |name: Option<&[u8]>, id: u32| match name {
        Some(name) => Value::name(name.to_vec()),
        None => Value::text(id.to_string()),
    };
    Some(match letter {
        b'b' => Value::text(meta.stx_blocks.to_string()),
        b'k' => Value::text(meta.stx_blocks.div_ceil(2).to_string()),
        b's' => Value::text(meta.stx_size.to_string()),
        b'i' => Value::text(meta.stx_ino.to_string()),
        b'n' => Value::text(meta.stx_nlink.to_string()),
        b'm' => Value::number(format!("{:o}", mode & 0o7777), Number::Octal),
        b'M' => Value::text(mode::letters(mode)),
        b'D' => {
            Value::text(rustix::fs::makedev(meta.stx_dev_major, meta.stx_dev_minor).to_string())
        }
        b'S' => {
            let sparseness = match (meta.stx_size, meta.stx_blocks) {
                (0, 0) => 1.0,
                (0, _) => f64::MAX,
                (size, blocks) => 512.0 * blocks as f64 / size as f64,
            };
            Value::number("", Number::Real(sparseness))
        }
        b'F' => Value::name(session.costs.fs_type(meta).map_or_else(Vec::new, <[u8]>::to_vec)),
        b'U' => Value::text(meta.stx_uid.to_string()),
        b'G' => Value::text(meta.stx_gid.to_string()),
        b'u' => or_id(session.owners.user(meta.stx_uid), meta.stx_uid),
        b'g' => or_id(session.owners.group(meta.stx_gid), meta.stx_gid),
        _ => return None,
    })
}

/// Column widths of `-ls`; they grow with what was shown.
#[derive(Debug)]
pub(crate) struct ListWidths {
    inode: usize,
    blocks: usize,
    links: usize,
    user: usize,
    group: usize,
    major: usize,
    minor: usize,
    size: usize,
}

impl Default for ListWidths {
    fn default() -> Self {
        Self { inode: 9, blocks: 6, links: 3, user: 8, group: 8, major: 3, minor: 3, size: 8 }
    }
}

fn grown(width: &mut usize, text: &str) -> usize {
    *width = text.len().max(*width);
    *width
}

/// `-ls`; false where the file cannot be looked at.
pub(crate) fn list(output: usize, entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
    let Ok(meta) = entry.meta(session) else { return false };
    let mode = u32::from(meta.stx_mode);
    let name_or_id = |name: Option<&[u8]>, id: u32| {
        name.map_or_else(|| id.to_string(), |name| String::from_utf8_lossy(name).into_owned())
    };
    let user = name_or_id(session.owners.user(meta.stx_uid), meta.stx_uid);
    let group = name_or_id(session.owners.group(meta.stx_gid), meta.stx_gid);
    let date = time_of(&meta, Stamp::Modify)
        .map(|time| session.calendar.listed(time, session.now))
        .unwrap_or_default();
    let widths = &mut session.widths;
    let inode = meta.stx_ino.to_string();
    let blocks = meta.stx_blocks.div_ceil(session.list_block_sectors).to_string();
    let links = meta.stx_nlink.to_string();
    let size = if matches!(mode::type_letter(mode), b'b' | b'c') {
        let (major, minor) = (meta.stx_rdev_major.to_string(), meta.stx_rdev_minor.to_string());
        let (major_width, minor_width) =
            (grown(&mut widths.major, &major), grown(&mut widths.minor, &minor));
        format!("{major:>major_width$}, {minor:>minor_width$}")
    } else {
        let size = meta.stx_size.to_string();
        let width = grown(&mut widths.size, &size);
        format!("{size:>width$}")
    };
    let mut line = format!(
        "{inode:>0$} {blocks:>1$} {2} {links:>3$} {user:<4$} {group:<5$} {size} {date} ",
        grown(&mut widths.inode, &inode),
        grown(&mut widths.blocks, &blocks),
        mode::letters(mode),
        grown(&mut widths.links, &links),
        grown(&mut widths.user, &user),
        grown(&mut widths.group, &group),
    )
    .into_bytes();
    line.extend_from_slice(&escaped(entry.path));
    if mode::type_letter(mode) == b'l'
        && let Some(target) = entry.link_target(session)
    {
        line.extend_from_slice(b" -> ");
        line.extend_from_slice(&escaped(target.to_bytes()));
    }
    line.push(b'\n');
    session.write(output, &line);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_numbers_as_c_shows_them() {
        assert_eq!(general(1365.3333, 6, false), "1365.33");
        assert_eq!(general(1.0, 6, false), "1");
        assert_eq!(general(0.0001, 6, false), "0.0001");
        assert_eq!(general(0.00001, 6, false), "1e-05");
        assert_eq!(general(1_234_567.0, 6, false), "1.23457e+06");
        assert_eq!(general(f64::MAX, 6, false), "1.79769e+308");
        assert_eq!(general(0.0, 6, false), "0");
        assert_eq!(general(2048.0, 6, true), "2048.00");
        assert_eq!(general(0.0, 1, true), "0.");
    }

    #[test]
    fn layouts() {
        let layout = |zeros, plus, alternate, width, precision| Layout {
            zeros,
            plus,
            alternate,
            width,
            precision,
            ..Layout::default()
        };
        let shown = |value: Value<'_>, layout: Layout| {
            String::from_utf8(value.laid_out(&layout).into_owned()).expect("ASCII")
        };
        assert_eq!(shown(Value::text("abc"), layout(true, true, false, 5, Some(2))), "   ab");
        let octal = || Value::number("644", Number::Octal);
        assert_eq!(shown(octal(), layout(true, false, false, 5, None)), "00644");
        assert_eq!(shown(octal(), layout(false, false, true, 0, None)), "0644");
        let decimal = Value::number("7", Number::Decimal);
        assert_eq!(shown(decimal, layout(true, true, false, 4, None)), "+007");
    }

    #[test]
    fn components() {
        assert_eq!(leading_directories(b".//./"), b"./");
        assert_eq!(leading_directories(b"dd/"), b".");
        assert_eq!(leading_directories(b"d/"), b"d");
        assert_eq!(leading_directories(b"/"), b"");
        assert_eq!(last_component(b"d//"), b"d/");
        assert_eq!(last_component(b"a/b"), b"b");
        assert_eq!(last_component(b"/"), b"/");
        assert_eq!(last_component(b"."), b".");
    }
}
