//! Which statements are put to a database: those that can do nothing but answer.
//!
//! A connection that only reads is not enough: a procedure may end its transaction and begin another,
//! and files that a server writes are no matter of its transactions.

/// What statements begin with that answer with rows.
const ANSWERING: [&str; 8] =
    ["select", "with", "values", "table", "show", "explain", "describe", "desc"];

/// Why this is no query; `None` if it is one.
pub(super) fn objection(text: &str) -> Option<&'static str> {
    let first = without_comments(text).split(|c: char| !c.is_ascii_alphabetic()).next();
    let is_answering =
        |first: &str| ANSWERING.iter().any(|known| first.eq_ignore_ascii_case(known));
    if !first.is_some_and(is_answering) {
        return Some(
            "it is not asked: a query is read-only, and begins with select, with, values, table, show, explain or describe",
        );
    }
    None
}

/// Why a query of `MySQL`'s is not asked: by these words it could write a file.
pub(super) fn objection_to_files(text: &str) -> Option<&'static str> {
    let text = bare(text).unwrap_or_else(|| text.to_owned()).to_ascii_lowercase();
    let writes = ["outfile", "dumpfile"].iter().any(|word| text.contains(word));
    writes.then_some(
        "it is not asked: a query is read-only, and INTO OUTFILE and INTO DUMPFILE write",
    )
}

/// What of a query of `MySQL`'s is neither quoted nor a comment; `None` where only its server knows: by
/// its mode a backslash quotes, by a character set a letter takes in the sign behind it, and what some
/// comments hold is run.
fn bare(text: &str) -> Option<String> {
    let mut bare = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let behind = match first {
            '\'' | '"' | '`' => {
                let (quoted, behind) = rest[1..].split_once(first)?;
                let is_plain = !quoted.contains('\\') && (first != '`' || quoted.is_ascii());
                is_plain.then_some(behind)?
            }
            '#' => behind_line(rest),
            '-' if ["-- ", "--\t", "--\n"].iter().any(|begin| rest.starts_with(begin)) => {
                behind_line(rest)
            }
            '/' if rest.starts_with("/*") => {
                let (inside, behind) = rest[2..].split_once("*/")?;
                (!inside.starts_with(RUN_COMMENTS)).then_some(behind)?
            }
            ' '..='~' | '\t' | '\n' if !['\\', '$'].contains(&first) => {
                bare.push(first);
                rest = &rest[1..];
                continue;
            }
            _ => return None,
        };
        bare.push(' ');
        rest = behind;
    }
    Some(bare)
}

/// What follows the end of this line.
fn behind_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, behind)| behind)
}

/// Why a query of `SQLite`'s is not asked: of several statements it runs all.
pub(super) fn objection_to_more(text: &str) -> Option<&'static str> {
    let mut rest = text;
    loop {
        let end = rest.find([';', '\'', '"', '`', '[', '-', '/', '$', '@', ':'])?;
        let (found, behind) = (rest.as_bytes()[end], &rest[end + 1..]);
        rest = match found {
            b';' if behind_comments(behind.trim_start_matches([';', ' ', '\n']), &[])
                .is_empty() =>
            {
                return None;
            }
            // Their names may hold quotes.
            b'$' | b'@' | b':' => {
                return Some("it is not asked: nothing is bound to its variables");
            }
            b';' => return Some("it is not asked: one query is asked at a time"),
            b'[' => behind.split_once(']')?.1,
            quote @ (b'\'' | b'"' | b'`') => behind.split_once(char::from(quote))?.1,
            // A comment, or the same again behind a sign that is none.
            _ => Some(behind_comments(&rest[end..], &[]))
                .filter(|left| left.len() < behind.len())
                .unwrap_or(behind),
        };
    }
}

/// What comments begin with whose text `MySQL` or `MariaDB` runs.
const RUN_COMMENTS: [char; 2] = ['!', 'M'];

/// What follows spaces, opening parentheses and comments. The comments whose text is run are none.
fn without_comments(text: &str) -> &str {
    behind_comments(text, &RUN_COMMENTS)
}

/// What follows spaces, opening parentheses and comments but those that begin with one of `run`.
fn behind_comments<'text>(text: &'text str, run: &[char]) -> &'text str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
        if rest.starts_with("--") {
            rest = behind_line(rest);
        } else if let Some(inside) =
            rest.strip_prefix("/*").filter(|inside| !inside.starts_with(run))
        {
            rest = inside.split_once("*/").map_or("", |(_, behind)| behind);
        } else {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_answers_is_asked() {
        for query in [
            "select 1",
            " -- why\n/* a */ (SELECT(1))",
            "with x as (select 1) table x",
            "Values(1)",
        ] {
            assert_eq!(objection(query), None, "{query}");
        }
        for other in [
            "",
            "insert into t values (1)",
            "call p()",
            "selected",
            "/*! call p() */ select 1",
            "copy t to 'x'",
            "-- select",
            "do $$begin end$$",
        ] {
            assert!(objection(other).is_some(), "{other}");
        }
    }

    #[test]
    fn only_words_that_could_write_a_file_are_objected_to() {
        for query in [
            "select 1 from files",
            "select 'it''s outfile', \"dumpfile\" from `outfile`",
            "select 1 # outfile\n -- dumpfile\n, 2 /* outfile */ - 3 / 4",
            "select 'gr\u{fc}\u{df}e' from t where name like '%.outfile'",
        ] {
            assert_eq!(objection_to_files(query), None, "{query}");
        }
        for writes in [
            "select 1 INTO/**/OutFile 'x'",
            "select 1 /*!into outfile 'x' */",
            "select 1 /*M!100 into dumpfile 'x' */",
            "select '' into outfile 'x'",
            "select '\\' into outfile 'x' -- '",
            "select 1 --\u{b}'\n into outfile 'x'",
            "select 1 /* ' */ into outfile 'x'",
            "select 1 # '\n into outfile 'x'",
            "select 1 from `\u{4f60}` into outfile 'x' -- `",
            "select $$'$$ into outfile 'x'",
        ] {
            assert!(objection_to_files(writes).is_some(), "{writes}");
        }
    }

    #[test]
    fn one_statement_is_asked_at_a_time() {
        for one in [
            "select ';' || \";\" || `;` || [;] -- ;\n/* ; ' */ - 1 / 2",
            "select 'it''s;';",
            "select 1; ; -- end",
            "select '; select 1",
            "select 1 /* ;",
            "select 1 /*! ' ; */ -- : $ @",
        ] {
            assert_eq!(objection_to_more(one), None, "{one}");
        }
        for more in [
            "select 1 /*! ' */; vacuum into 'x' --'",
            "select $1(') from t; vacuum into 'x' --'",
            "select @a",
        ] {
            assert!(objection_to_more(more).is_some(), "{more}");
        }
        for two in [
            "select 1; pragma x",
            "select ''';'; vacuum",
            "select 1 - 1;x",
            "select 1 /*'*/;x",
            "select 1;/**/x",
            "select [']; x",
        ] {
            assert!(objection_to_more(two).is_some(), "{two}");
        }
    }
}
