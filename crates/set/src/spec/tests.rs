//! The text form by table, and what must hold of any text.

use proptest::prelude::*;
use store::Pattern;

use super::*;

fn parsed(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn program(folder: &str, words: &[&str], suffix: &str) -> Spec {
    Spec::program(folder, words.iter().copied(), suffix)
}

#[test]
fn broken_braces_are_found_before_a_spec_is_evaluated() {
    for broken in ["logs/{a", "d{b.db\\select n\\", "a.db\\select n\\/{a", "d/%ls%{a"] {
        let error = parsed(broken).checked().expect_err(broken);
        assert_eq!(error.reason, "a `{` without its `}`", "{broken}");
    }
    for spec in ["logs/{a,b}", "logs/\\{a", "~nobody/{a..c}", "@{a"] {
        assert_eq!(parsed(spec).checked(), Ok(parsed(spec)));
    }
}

#[test]
fn text_is_read_as_the_constructors_say() {
    for (text, spec) in [
        ("/projects/*src*/*.c", Spec::glob("/projects/*src*/*.c")),
        ("plain", Spec::glob("plain")),
        ("", Spec::glob("")),
        ("a\\*b", Spec::glob("a\\*b")),
        ("a\\ b\\%", Spec::glob("a b%")),
        ("end\\", Spec::glob("end\\\\")),
        ("[\\a]", Spec::glob("[\\a]")),
        ("-", Spec::ListFile(ListSource::Stdin)),
        ("@-", Spec::ListFile(ListSource::Stdin)),
        ("@names", Spec::ListFile(ListSource::Object("names".into()))),
        ("@s3://b/names", Spec::ListFile(ListSource::Object("s3://b/names".into()))),
        ("\\@names", Spec::glob("@names")),
        ("\\-", Spec::glob("-")),
        ("a/-", Spec::glob("a/-")),
        (
            "/staff/\\select home from users where name like \"%david%\"\\",
            Spec::query("/staff/", "select home from users where name like \"%david%\"", ""),
        ),
        ("a.db\\select n\\/*.c", Spec::query("a.db", "select n", "/*.c")),
        ("a.db\\select '\\\\n'\\", Spec::query("a.db", "select '\\n'", "")),
        (
            "https://h/p.html\\a[href$=\".pdf\"]\\",
            Spec::links("https://h/p.html", "a[href$=\".pdf\"]"),
        ),
        ("https://h/find?q=a%20b\\.hit a\\", Spec::links("https://h/find?q=a%20b", ".hit a")),
        (
            "postgres://h/db?sslmode=require\\select n\\",
            Spec::query("postgres://h/db?sslmode=require", "select n", ""),
        ),
        ("mysql://h/db\\(select n)\\/\\(*", Spec::query("mysql://h/db", "(select n)", "/(*")),
        ("a\\(1\\).c", Spec::glob("a(1).c")),
        ("https://[::1]/p\\#main a\\", Spec::links("https://[::1]/p", "#main a")),
        (
            "/sources/pkgs/contrib/%myMakeDepend foo.c%",
            program("/sources/pkgs/contrib", &["myMakeDepend", "foo.c"], ""),
        ),
        ("/staff/%find . -name *.txt%", program("/staff", &["find", ".", "-name", "*.txt"], "")),
        ("%ls -1%/*.c", program("", &["ls", "-1"], "/*.c")),
        ("%printf '%s' \"a b\" c\\%d\\ e%", program("", &["printf", "%s", "a b", "c%d e"], "")),
        ("%p ''%", program("", &["p", ""], "")),
        ("100%/50%", Spec::glob("100%/50%")),
        ("%one", Spec::glob("%one")),
        ("\\%no%", Spec::glob("%no%")),
        ("https://h/%41%42", Spec::glob("https://h/%41%42")),
    ] {
        assert_eq!(parsed(text), spec, "{text}");
        assert_eq!(parsed(&spec.to_string()), spec, "{text} written as {spec}");
    }
}

#[test]
fn prefixes_are_names_and_may_have_braces() {
    let Spec::Query { prefix, .. } = parsed("{a,b}.db\\select n\\") else { panic!("a query") };
    let names: Vec<_> = prefix.alternatives().into_iter().map(Result::unwrap).collect();
    assert_eq!(names, [b"a.db", b"b.db"]);
    let spec = Spec::query("a{b}*.db", "select n", "");
    let Spec::Query { prefix, .. } = &spec else { panic!("a query") };
    let names: Vec<_> = prefix.alternatives().into_iter().map(Result::unwrap).collect();
    assert_eq!(Pattern::unquoted(&names[0]), &b"a{b}*.db"[..]);
    assert_eq!(parsed(&spec.to_string()), spec);
}

#[test]
fn what_is_no_spec_is_refused_with_what_would_be_one() {
    for (text, part) in [
        ("@", "`@` is followed by"),
        ("dir\\name", "written `\\\\`"),
        ("*.db\\select n\\", "no wildcards"),
        ("a\\select n\\b\\select m\\", "a second query"),
        ("%p%/%q%", "a second query"),
        ("%%", "no program"),
        ("% %", "no program"),
        ("%it's%", "a quote"),
    ] {
        let error = Spec::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let error = Spec::parse(b"a\\select \xff\\").expect_err("not UTF-8");
    assert!(error.reason.contains("UTF-8"), "{error}");
}

#[test]
fn an_operand_that_exists_is_taken_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::default();
    let path = |name: &str| folder.path().join(name).into_os_string();
    for name in ["a*b", "back\\slash", "%p%", "{x}"] {
        let operand = path(name);
        assert_ne!(Spec::operand(&local, &operand).ok(), Some(Spec::list([Path::new(&operand)])));
        std::fs::write(&operand, "").unwrap();
        assert_eq!(Spec::operand(&local, &operand), Ok(Spec::list([Path::new(&operand)])));
    }
    let plain = path("plain");
    std::fs::write(&plain, "").unwrap();
    assert_eq!(Spec::operand(&local, &plain), Ok(Spec::glob(plain.as_bytes())));
}

#[test]
fn what_is_no_spec_is_said_without_its_password() {
    for (text, shown) in [
        ("postgres://u:secret@h/db\\select name from t", "postgres://u@h/db\\select name from t"),
        ("{mysql://u:secret@h/a,b}\\select", "{mysql://u@h/a,b}\\select"),
    ] {
        let error = Spec::parse(text).expect_err("the query has no end");
        assert_eq!(error.spec, Name::from(text));
        assert!(error.to_string().starts_with(&format!("{shown}: ")), "{error}");
    }
}

#[test]
fn a_percent_sign_in_a_url_is_written_as_it_is() {
    let text = b"https://h/%41";
    assert_eq!(Spec::glob(text).to_text(), text);
    assert_eq!(Spec::parse(text), Ok(Spec::glob(text)));
}

/// Text with the bytes that mean something, more often than chance would have them.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\\\\%%@-*?[]{},~/ab.#'\" :\xff".to_vec());
    prop::collection::vec(special, 0..24)
}

proptest! {
    #[test]
    fn any_text_is_a_spec_or_refused(text in text()) {
        if let Err(error) = Spec::parse(&text) {
            prop_assert!(!error.reason.is_empty());
        }
    }

    #[test]
    fn a_pattern_is_the_same_after_it_was_written_and_read(text in text()) {
        let spec = Spec::glob(&text);
        prop_assert_eq!(Spec::parse(spec.to_text()), Ok(spec));
    }

    #[test]
    fn a_quoted_name_stands_for_itself(name in text()) {
        let glob = Glob::literal(&name);
        let alternatives = glob.alternatives();
        prop_assert_eq!(alternatives.len(), 1);
        let only = alternatives[0].as_ref().expect("no braces are left");
        prop_assert!(!is_wild(only));
        prop_assert_eq!(&*Pattern::unquoted(only), &*name);
    }

    #[test]
    fn a_query_is_the_same_after_it_was_written_and_read(prefix in text(), question in "[a-z.#][ -~]{0,16}") {
        let spec = Spec::query(prefix, question, "/*.c");
        prop_assert_eq!(Spec::parse(spec.to_text()), Ok(spec));
    }

    #[test]
    fn a_program_is_the_same_after_it_was_written_and_read(words in prop::collection::vec("[ -~]{0,8}", 1..4)) {
        let spec = Spec::program("/folder", words, "/*.c");
        prop_assert_eq!(Spec::parse(spec.to_text()), Ok(spec));
    }
}
