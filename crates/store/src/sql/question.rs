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

/// Why a query of `MySQL`'s is not asked: by these words, wherever they stand, it could write a file.
pub(super) fn objection_to_files(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let writes = ["outfile", "dumpfile"].iter().any(|word| text.contains(word));
    writes.then_some(
        "it is not asked: a query is read-only, and INTO OUTFILE and INTO DUMPFILE write",
    )
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

/// What follows spaces, opening parentheses and comments. The comments whose text `MySQL` runs are none.
fn without_comments(text: &str) -> &str {
    behind_comments(text, &['!', 'M'])
}

/// What follows spaces, opening parentheses and comments but those that begin with one of `run`.
fn behind_comments<'text>(text: &'text str, run: &[char]) -> &'text str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
        if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
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
        assert!(objection_to_files("select 1 INTO/**/OutFile 'x'").is_some());
        assert_eq!(objection_to_files("select 1 from files"), None);
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
