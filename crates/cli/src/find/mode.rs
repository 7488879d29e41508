//! Permissions: the mode of `-perm`, in octal or symbols, and `ls`'s letters.

/// How the bits of a file compare with those asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Exactly,
    /// `-MODE`
    All,
    /// `/MODE`
    Any,
}

/// `-perm`'s argument. `X` may mean different bits for directories and other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PermissionTest {
    rule: Rule,
    file: u32,
    directory: u32,
}

const ALL: u32 = 0o7777;

impl PermissionTest {
    /// Reads `MODE`, `-MODE` or `/MODE`; `None` when it is no mode.
    pub(crate) fn parse(argument: &[u8]) -> Option<Self> {
        let (rule, mode) = match argument.split_first()? {
            (b'-', mode) => (Rule::All, mode),
            (b'/', mode) => (Rule::Any, mode),
            _ => (Rule::Exactly, argument),
        };
        // GNU find had `+MODE` once, and no other meaning was given to it since.
        if matches!(argument, [b'+', b'0'..=b'9', ..]) {
            return None;
        }
        let (file, directory) = if mode.first()?.is_ascii_digit() {
            let bits = octal(mode)?;
            (bits, bits)
        } else {
            (symbolic(mode, false)?, symbolic(mode, true)?)
        };
        Some(Self { rule, file, directory })
    }

    /// Whether no bit is asked for.
    pub(crate) fn asks_for_nothing(&self) -> bool {
        self.file == 0 && self.directory == 0
    }

    pub(crate) fn holds(&self, mode: u32, is_directory: bool) -> bool {
        let asked = if is_directory { self.directory } else { self.file };
        let bits = mode & ALL;
        match self.rule {
            Rule::Exactly => bits == asked,
            Rule::All => bits & asked == asked,
            // GNU find: `/000` matches every file, as `-000` does.
            Rule::Any => asked == 0 || bits & asked != 0,
        }
    }
}

fn octal(text: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(text).ok()?;
    u32::from_str_radix(digits, 8).ok().filter(|&bits| bits <= ALL)
}

/// The bits that symbols like `u=rw,g+X` set on a file without any.
fn symbolic(text: &[u8], is_directory: bool) -> Option<u32> {
    let mut bits = 0;
    for clause in text.split(|&byte| byte == b',') {
        let who_end = clause.iter().position(|byte| !b"ugoa".contains(byte))?;
        let who = clause[..who_end].iter().fold(0, |who, letter| who | class_bits(*letter));
        let who = if who_end == 0 { ALL } else { who };
        let mut rest = &clause[who_end..];
        while let Some((&operator, after)) = rest.split_first() {
            if !b"+-=".contains(&operator) {
                return None;
            }
            let end = after.iter().position(|byte| b"+-=".contains(byte)).unwrap_or(after.len());
            let value = match octal(&after[..end]) {
                Some(_) if who_end > 0 || end < after.len() => return None,
                Some(value) => value,
                None => permissions(&after[..end], bits, is_directory)? & who,
            };
            bits = match operator {
                b'+' => bits | value,
                b'-' => bits & !value,
                _ => bits & !who | value,
            };
            rest = &after[end..];
        }
    }
    Some(bits)
}

fn class_bits(letter: u8) -> u32 {
    match letter {
        b'u' => 0o4700,
        b'g' => 0o2070,
        b'o' => 0o1007,
        _ => ALL,
    }
}

fn permissions(letters: &[u8], bits: u32, is_directory: bool) -> Option<u32> {
    if let [copied @ (b'u' | b'g' | b'o')] = letters {
        let three = match copied {
            b'u' => bits >> 6,
            b'g' => bits >> 3,
            _ => bits,
        } & 7;
        return Some(three * 0o111);
    }
    letters.iter().try_fold(0, |value, letter| {
        Some(
            value
                | match letter {
                    b'r' => 0o444,
                    b'w' => 0o222,
                    b'x' => 0o111,
                    b'X' if is_directory || bits & 0o111 != 0 => 0o111,
                    b'X' => 0,
                    b's' => 0o6000,
                    b't' => 0o1000,
                    _ => return None,
                },
        )
    })
}

/// The letter of a file type in `-type` and `%y`.
pub(crate) fn type_letter(mode: u32) -> u8 {
    match mode & 0o170_000 {
        0o040_000 => b'd',
        0o100_000 => b'f',
        0o120_000 => b'l',
        0o010_000 => b'p',
        0o140_000 => b's',
        0o060_000 => b'b',
        0o020_000 => b'c',
        _ => b'U',
    }
}

/// Type and permissions in ten letters, as `ls -l` shows them.
pub(crate) fn letters(mode: u32) -> String {
    let kind = match type_letter(mode) {
        b'f' => '-',
        b'U' => '?',
        letter => char::from(letter),
    };
    let mut text = String::from(kind);
    for (shift, special, on) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let three = mode >> shift;
        text.push(if three & 4 != 0 { 'r' } else { '-' });
        text.push(if three & 2 != 0 { 'w' } else { '-' });
        text.push(match (three & 1 != 0, mode & special != 0) {
            (true, true) => on,
            (false, true) => on.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(argument: &str, mode: u32) -> bool {
        PermissionTest::parse(argument.as_bytes()).expect("a mode").holds(mode, false)
    }

    #[test]
    fn octal_and_symbols_agree() {
        assert!(holds("644", 0o100_644));
        assert!(holds("u=rw,go=r", 0o100_644));
        assert!(holds("-u+w", 0o100_755));
        assert!(holds("/a+x", 0o100_010));
        assert!(!holds("/222", 0o100_444));
        assert!(holds("/000", 0));
        assert!(holds("u=rw,g=u", 0o660));
        assert!(holds("=755", 0o755) && holds("-=444", 0o444) && holds("--111", 0));
    }

    #[test]
    fn a_directory_may_be_asked_for_more_than_a_file() {
        let test = PermissionTest::parse(b"/a+X").expect("a mode");
        assert!(test.holds(0o110, true) && !test.holds(0o600, true) && test.holds(0o600, false));
        assert!(!test.asks_for_nothing());
        assert!(PermissionTest::parse(b"/000").expect("a mode").asks_for_nothing());
    }

    #[test]
    fn what_is_no_mode() {
        for text in
            ["", "-", "9", "u", "u+q", "7777777", "zz", "+-,", "=8", "a+111", "=7+1", "+444"]
        {
            assert!(PermissionTest::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn letters_of_special_bits() {
        assert_eq!(letters(0o104_755), "-rwsr-xr-x");
        assert_eq!(letters(0o041_777), "drwxrwxrwt");
        assert_eq!(letters(0o102_644), "-rw-r-Sr--");
    }
}
