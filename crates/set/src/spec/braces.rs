//! `{a,b}`: alternatives, expanded as text before anything is looked up.

/// Alternatives of one operand; more are a mistake, or an attack.
const ALTERNATIVES_MAX: usize = 4096;

/// All that `spec` stands for, in order. `{}` stands for itself, as in csh.
pub(crate) fn expand(spec: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut done = Vec::new();
    let mut open = vec![spec.to_vec()];
    while let Some(text) = open.pop() {
        if done.len() + open.len() > ALTERNATIVES_MAX {
            return Err(format!("more than {ALTERNATIVES_MAX} alternatives in braces"));
        }
        match first_group(&text)? {
            None => done.push(text),
            Some(Group { start, end, commas }) => {
                let starts = std::iter::once(start + 1).chain(commas.iter().map(|at| at + 1));
                let ends = commas.iter().copied().chain([end]);
                let alternatives: Vec<_> = starts.zip(ends).collect();
                for &(from, to) in alternatives.iter().rev() {
                    open.push([&text[..start], &text[from..to], &text[end + 1..]].concat());
                }
            }
        }
    }
    Ok(done)
}

struct Group {
    start: usize,
    end: usize,
    commas: Vec<usize>,
}

/// The first group of braces that is not empty.
fn first_group(text: &[u8]) -> Result<Option<Group>, String> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut commas = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'{' if depth == 0 && text.get(at + 1) == Some(&b'}') => at += 1,
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
    fn too_many_are_refused() {
        assert!(expand("{a,b}".repeat(40).as_bytes()).is_err());
    }
}
