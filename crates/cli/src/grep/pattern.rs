//! The patterns of a run, and the engine that matches them.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use grep::matcher::Matcher as _;
use grep::searcher::Searcher;
use nearfirst::{Costs, fetch};

use super::asked::{Asked, Boundary, Case, Engine, PatternSource};

/// A compiled pattern of either engine.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    Regex(grep::regex::RegexMatcher),
    /// The flag says whether no match can have a NUL byte in it, as far as is known.
    Pcre2(grep::pcre2::RegexMatcher, bool),
}

impl Pattern {
    /// Whether no match can have a NUL byte in it, as far as is known.
    pub(super) fn avoids_nul(&self) -> bool {
        match self {
            Self::Regex(matcher) => never_matches_nul(matcher),
            Self::Pcre2(_, avoids_nul) => *avoids_nul,
        }
    }

    /// Whether a match may go on over the end of a line, so that lines cannot be searched one by one.
    pub(super) fn spans_lines(&self, searcher: &Searcher) -> bool {
        match self {
            Self::Regex(matcher) => searcher.multi_line_with_matcher(matcher),
            Self::Pcre2(matcher, _) => searcher.multi_line_with_matcher(matcher),
        }
    }
}

fn never_matches_nul(matcher: &grep::regex::RegexMatcher) -> bool {
    matcher.non_matching_bytes().is_some_and(|bytes| bytes.contains(0))
}

/// Reads the patterns of `--regexp` and `--file`, each once.
///
/// # Errors
/// A pattern file that cannot be read or is not UTF-8.
pub(super) fn gather<'a>(
    sources: &[PatternSource],
    costs: impl Fn() -> &'a Costs,
) -> anyhow::Result<Vec<String>> {
    let read = |name: &dyn Display, file: File| {
        let lines = fetch::answering(file, costs()).and_then(grep::cli::patterns_from_reader);
        lines.map_err(|error| anyhow!("{name}:{error}"))
    };
    let mut seen = HashSet::new();
    let mut patterns = Vec::new();
    let mut add = |pattern: String| {
        if seen.insert(pattern.clone()) {
            patterns.push(pattern);
        }
    };
    let mut stdin_read = false;
    for source in sources {
        match source {
            PatternSource::Given(pattern) => add(pattern.clone()),
            PatternSource::File(path) if path == Path::new("-") => {
                if std::mem::replace(&mut stdin_read, true) {
                    bail!("patterns can be read from standard input only once");
                }
                let own = io::stdin().as_fd().try_clone_to_owned()?;
                read(&"<stdin>", own.into())?.into_iter().for_each(&mut add);
            }
            PatternSource::File(path) => {
                let file = costs().open(path);
                let file =
                    file.map_err(|error| anyhow!("{}: {}", path.display(), error.reason()))?;
                read(&path.display(), file)?.into_iter().for_each(&mut add);
            }
        }
    }
    Ok(patterns)
}

/// Compiles `patterns`; `nul_is_text` says whether one may match a NUL byte.
///
/// # Errors
/// A pattern that the engine does not understand, with advice where another
/// flag would help.
pub(super) fn compile(
    asked: &Asked,
    patterns: &[String],
    nul_is_text: bool,
) -> anyhow::Result<Pattern> {
    match asked.engine {
        Engine::Default => regex(asked, patterns, nul_is_text),
        Engine::Pcre2 => pcre2(asked, patterns),
        Engine::Auto => regex(asked, patterns, nul_is_text)
            .or_else(|first| pcre2(asked, patterns).with_context(|| format!("{first}"))),
    }
}

fn regex(asked: &Asked, patterns: &[String], nul_is_text: bool) -> anyhow::Result<Pattern> {
    let mut builder = grep::regex::RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .octal(false)
        .unicode(!asked.no_unicode)
        .fixed_strings(asked.fixed_strings)
        .case_insensitive(asked.case == Case::Insensitive)
        .case_smart(asked.case == Case::Smart)
        .whole_line(asked.boundary == Some(Boundary::Line))
        .word(asked.boundary == Some(Boundary::Word));
    if asked.multiline {
        builder.dot_matches_new_line(asked.multiline_dotall);
        if asked.crlf {
            builder.crlf(true).line_terminator(None);
        }
    } else {
        builder.line_terminator(Some(b'\n')).dot_matches_new_line(false);
        if asked.crlf {
            builder.crlf(true);
        }
        if asked.null_data {
            builder.line_terminator(Some(b'\0'));
        }
    }
    if let Some(bytes) = asked.regex_size_limit {
        builder.size_limit(bytes);
    }
    if let Some(bytes) = asked.dfa_size_limit {
        builder.dfa_size_limit(bytes);
    }
    if !nul_is_text {
        builder.ban_byte(Some(b'\0'));
    }
    builder.build_many(patterns).map(Pattern::Regex).map_err(|error| {
        let text = error.to_string();
        anyhow::anyhow!("{text}{}", advice(&text))
    })
}

/// The flag that would let a refused pattern through.
fn advice(refused: &str) -> &'static str {
    if refused.contains("backreferences") || refused.contains("look-around") {
        "\n\n--pcre2 (-P) has an engine with look-around and backreferences."
    } else if refused.contains("the literal") && refused.contains("not allowed") {
        "\n\n--multiline (-U) lets a match span lines."
    } else if refused.contains("pattern contains \"\\0\"") {
        "\n\n--text (-a) lets a match contain NUL bytes."
    } else {
        ""
    }
}

/// Stack of the compiled matcher: the engine's 32 KiB are too few for
/// patterns that backtrack deeply, and it is taken only as needed.
const JIT_STACK_BYTES_MAX: usize = 10 << 20;

fn pcre2(asked: &Asked, patterns: &[String]) -> anyhow::Result<Pattern> {
    let mut builder = grep::pcre2::RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .fixed_strings(asked.fixed_strings)
        .caseless(asked.case == Case::Insensitive)
        .case_smart(asked.case == Case::Smart)
        .whole_line(asked.boundary == Some(Boundary::Line))
        .word(asked.boundary == Some(Boundary::Word))
        .jit_if_available(true)
        .max_jit_stack_size(Some(JIT_STACK_BYTES_MAX))
        .utf(!asked.no_unicode)
        .ucp(!asked.no_unicode)
        .crlf(asked.crlf);
    if asked.multiline {
        builder.dotall(asked.multiline_dotall);
    }
    // What both engines understand means the same to both; of the rest nothing is known.
    let avoids_nul = regex(asked, patterns, true).is_ok_and(|pattern| pattern.avoids_nul());
    Ok(Pattern::Pcre2(builder.build_many(patterns)?, avoids_nul))
}
