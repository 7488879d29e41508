//! `{a,b}` and `{01..12}`: alternatives, expanded as text before anything is looked up.

/// Alternatives of one operand; more are a mistake, or an attack.
const ALTERNATIVES_MAX: usize = 4096;

/// All that `spec` stands for, in order. Braces around what is neither a list nor a sequence stand for
/// themselves, as in bash.
pub(crate) fn expand(spec: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut done = Vec::new();
    // Each with where what may still stand for something else begins.
    let mut open = vec![(spec.to_vec(), 0)];
    while let Some((text, from)) = open.pop() {
        if done.len() + open.len() > ALTERNATIVES_MAX {
            return Err(too_many());
        }
        let Some(Group { start, end, commas }) = first_group(&text, from)? else {
            done.push(text);
            continue;
        };
        let all = if commas.is_empty() {
            sequence(&text[start + 1..end])?
        } else {
            let starts = std::iter::once(start + 1).chain(commas.iter().map(|at| at + 1));
            let ends = commas.iter().copied().chain([end]);
            Some(starts.zip(ends).map(|(from, to)| text[from..to].to_vec()).collect())
        };
        let Some(all) = all else {
            open.push((text, start + 1));
            continue;
        };
        for alternative in all.iter().rev() {
            open.push(([&text[..start], alternative, &text[end + 1..]].concat(), start));
        }
    }
    Ok(done)
}

fn too_many() -> String {
    format!(
        "more than {ALTERNATIVES_MAX} alternatives in braces: write the names into a list, `@FILE`"
    )
}

/// What `1..12`, `01..12`, `a..f` or, in steps, `0..90..30` stands for, as in bash: both ends are of
/// it, and numbers are as long as the longer of these if one begins with a zero.
fn sequence(text: &[u8]) -> Result<Option<Vec<Vec<u8>>>, String> {
    let Ok(text) = str::from_utf8(text) else { return Ok(None) };
    let ends: Vec<&str> = text.split("..").collect();
    let (first, last, step) = match ends[..] {
        [first, last] => (first, last, Some(1)),
        [first, last, step] => (first, last, step.parse().ok().map(i64::unsigned_abs)),
        _ => return Ok(None),
    };
    let Some(step) = step.map(|step| step.max(1)) else { return Ok(None) };
    if let (&[first], &[last]) = (first.as_bytes(), last.as_bytes())
        && (first.is_ascii_lowercase() && last.is_ascii_lowercase()
            || first.is_ascii_uppercase() && last.is_ascii_uppercase())
    {
        let letters = steps(first.into(), last.into(), step)?;
        let letter = |at| vec![u8::try_from(at).expect("between two letters")];
        return Ok(Some(letters.into_iter().map(letter).collect()));
    }
    let (Ok(from), Ok(to)) = (first.parse(), last.parse()) else { return Ok(None) };
    let is_padded = |end: &str| {
        let digits = end.trim_start_matches(['-', '+']);
        digits.len() > 1 && digits.starts_with('0')
    };
    let padded = is_padded(first) || is_padded(last);
    let width = if padded { first.len().max(last.len()) } else { 0 };
    let numbers = steps(from, to, step)?;
    Ok(Some(numbers.into_iter().map(|at| format!("{at:0width$}").into_bytes()).collect()))
}

/// The numbers from one to the other.
fn steps(from: i64, to: i64, step: u64) -> Result<Vec<i64>, String> {
    let last = from.abs_diff(to) / step;
    if last >= ALTERNATIVES_MAX as u64 {
        return Err(too_many());
    }
    let at = |number: u64| {
        let way = number * step;
        if to < from { from.wrapping_sub_unsigned(way) } else { from.wrapping_add_unsigned(way) }
    };
    Ok((0..=last).map(at).collect())
}

struct Group {
    start: usize,
    end: usize,
    commas: Vec<usize>,
}

/// The first group of braces that begins at `from` or after it.
fn first_group(text: &[u8], from: usize) -> Result<Option<Group>, String> {
    let mut depth = 0_usize;
    let mut start = from;
    let mut commas = Vec::new();
    let mut at = from;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b',' if depth == 1 => commas.push(at),
            b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(Group { start, end: at, commas }));
                }
            }
            _ => {}
        }
        at += 1;
    }
    if depth > 0 { Err("a `{` without its `}`".to_owned()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(spec: &str) -> Vec<String> {
        let all = expand(spec.as_bytes()).expect("well formed");
        all.into_iter().map(|text| String::from_utf8(text).expect("text")).collect()
    }

    #[test]
    fn alternatives_multiply_in_order() {
        assert_eq!(expanded("{a,b}{1,2}"), ["a1", "a2", "b1", "b2"]);
        assert_eq!(expanded("x{a,{b,c}d}"), ["xa", "xbd", "xcd"]);
        assert_eq!(expanded("a{,.bak}"), ["a", "a.bak"]);
        assert_eq!(expanded("{}"), ["{}"]);
        assert_eq!(expanded("a\\{b,c}"), ["a\\{b,c}"]);
        assert_eq!(expanded("plain"), ["plain"]);
    }

    #[test]
    fn sequences_are_those_of_bash() {
        assert_eq!(expanded("{8..11}"), ["8", "9", "10", "11"]);
        assert_eq!(expanded("d-{08..11}/*"), ["d-08/*", "d-09/*", "d-10/*", "d-11/*"]);
        assert_eq!(expanded("{1..003}"), ["001", "002", "003"]);
        assert_eq!(expanded("{-01..1}"), ["-01", "000", "001"]);
        assert_eq!(expanded("{2..-1}"), ["2", "1", "0", "-1"]);
        assert_eq!(expanded("{0..9..4}"), ["0", "4", "8"]);
        assert_eq!(expanded("{9..0..-4}"), ["9", "5", "1"]);
        assert_eq!(expanded("{1..2..0}"), ["1", "2"]);
        assert_eq!(expanded("{a..e..2}{Y..Z}"), ["aY", "aZ", "cY", "cZ", "eY", "eZ"]);
        assert_eq!(expanded("x{{1..2},b}"), ["x1", "x2", "xb"]);
        let ends = format!("{{{}..{}..{}}}", i64::MIN, i64::MAX, i64::MAX);
        assert_eq!(expanded(&ends), [i64::MIN, -1, i64::MAX - 1].map(|at| at.to_string()));
        assert_eq!(expanded("{1,..2}"), ["1", "..2"]);
    }

    #[test]
    fn braces_without_a_list_or_a_sequence_stand_for_themselves() {
        for text in
            ["", "a", "1..", "..2", "a..5", "a..Z", "1..2..x", "1..2..3..4", "1...3", "u1..u3"]
        {
            assert_eq!(expanded(&format!("{{{text}}}")), [format!("{{{text}}}")]);
        }
        assert_eq!(expanded("{u1..u3}{a,b}"), ["{u1..u3}a", "{u1..u3}b"]);
        assert_eq!(expanded("{u1..u3,x}"), ["u1..u3", "x"]);
        assert_eq!(expanded("x{{1..2}}"), ["x{1}", "x{2}"]);
        assert_eq!(expanded("{{}}{{a},{a,b}c}"), ["{{}}{a}", "{{}}ac", "{{}}bc"]);
        assert_eq!(expand(b"{{a}").expect_err("one is open"), "a `{` without its `}`");
    }

    #[test]
    fn too_many_are_refused() {
        assert!(expand("{a,b}".repeat(40).as_bytes()).is_err());
        assert_eq!(expanded("{1..4096}").len(), 4096);
        for text in ["{1..4097}", "{0..9223372036854775807}", "{1..100}{1..100}"] {
            let error = expand(text.as_bytes()).expect_err(text);
            assert_eq!(
                error,
                "more than 4096 alternatives in braces: write the names into a list, `@FILE`"
            );
        }
    }
}
