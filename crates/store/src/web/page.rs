//! The links of a page, found while it loads.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use lol_html::{AsciiCompatibleEncoding, MemorySettings, OutputSink, Selector, element, send};

use super::link::Base;
use crate::{ByteStream, Entries, Entry, Error, Name, lock};

/// What parsing a page may hold: open elements and one tag that is not whole
/// yet. A page that needs more is no page, or means harm.
const PARSER_BYTES_MAX: usize = 16 << 20;

/// Names that are remembered to leave out what a page repeats. The set leaves
/// out the others.
const REPEATS_MAX: usize = 4096;

/// The links, where no selector says which.
const ALL_LINKS: &str = "a[href]";

/// What selectors can be made of, for who wrote one that is none.
const ACCEPTED: &str = "accepted are elements, .class, #id, [attribute] and =, ^=, $=, *=, ~=, |= in it, :first-child, :nth-child(n), :first-of-type, :nth-of-type(n), :not(...), a space or > between them, and commas, as in `a[href$=\".gz\"]`";

/// Parentheses within parentheses of a selector: who parses it calls itself for each.
const DEPTH_MAX: usize = 64;

/// A page on its way.
pub(super) struct Opened {
    /// What its links are relative to.
    pub(super) base: Base,
    /// How it is written, if its server says so: that goes before what it says itself.
    pub(super) written_in: Option<&'static Encoding>,
    /// Its bytes.
    pub(super) body: ByteStream,
}

/// The names that the elements which `selector` selects link to; an empty
/// one selects all links.
pub(super) fn links(
    page: Name,
    selector: &str,
    open: BoxFuture<'static, Result<Opened, Error>>,
) -> Entries {
    let selector = if selector.trim().is_empty() { ALL_LINKS } else { selector };
    if depth(selector) > DEPTH_MAX {
        let reason = format!("a selector has no more than {DEPTH_MAX} parentheses within others");
        return failed(Error::refused(page, reason));
    }
    let selector: Selector = match selector.parse() {
        Ok(selector) => selector,
        Err(error) => {
            let reason = format!("`{selector}` selects nothing: {error}; {ACCEPTED}");
            return failed(Error::refused(page, reason).caused_by(error));
        }
    };
    let opened = open.map(move |opened| match opened {
        Ok(opened) => Loading::new(page, selector, opened).links(),
        Err(error) => failed(error),
    });
    opened.flatten_stream().boxed()
}

/// How many parentheses of a selector lie within one another.
fn depth(selector: &str) -> usize {
    let step = |(open, most): (usize, usize), byte| match byte {
        b'(' => (open + 1, most.max(open + 1)),
        b')' => (open.saturating_sub(1), most),
        _ => (open, most),
    };
    selector.bytes().fold((0, 0), step).1
}

fn failed(error: Error) -> Entries {
    stream::once(async { Err(error) }).boxed()
}

/// A page that is being loaded.
struct Loading {
    page: Name,
    body: ByteStream,
    /// Until the page ends or is given up.
    parser: Option<send::HtmlRewriter<'static, Nowhere>>,
    is_begun: bool,
    is_utf_16: bool,
    /// What the parser has found since it was last asked.
    found: Found,
    ready: VecDeque<Result<Name, Error>>,
    repeats: HashSet<Name>,
}

type Found = Arc<Mutex<Vec<Result<Name, Error>>>>;

/// The rewritten page, which nobody wants.
struct Nowhere;

impl OutputSink for Nowhere {
    fn handle_chunk(&mut self, _chunk: &[u8]) {}
}

impl Loading {
    fn new(page: Name, selector: Selector, opened: Opened) -> Self {
        let Opened { base, written_in, body } = opened;
        let found = Found::default();
        let known = written_in.and_then(AsciiCompatibleEncoding::new);
        let parser = Some(parser(selector, base, known, Arc::clone(&found)));
        let is_utf_16 = [UTF_16BE, UTF_16LE].map(Some).contains(&written_in);
        let (ready, repeats) = (VecDeque::new(), HashSet::new());
        Self { page, body, parser, is_begun: false, is_utf_16, found, ready, repeats }
    }

    fn links(self) -> Entries {
        stream::unfold(self, |mut loading| async move {
            let link = loading.next().await?;
            Some((link.map(Entry::named), loading))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Name, Error>> {
        loop {
            if let Some(link) = self.ready.pop_front() {
                return Some(link);
            }
            self.parser.as_ref()?;
            let parsed = match self.body.next().await {
                Some(Ok(bytes)) => self.parse(&bytes),
                Some(Err(error)) => Err(error),
                None => self.finish(),
            };
            let found = std::mem::take(&mut *lock(&self.found));
            for link in found {
                if self.is_new(&link) {
                    self.ready.push_back(link);
                }
            }
            if let Err(error) = parsed {
                self.parser = None;
                self.ready.push_back(Err(error));
            }
            if self.ready.is_empty() {
                // Who collects what is ready gets on with what was found before.
                tokio::task::yield_now().await;
            }
        }
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let is_marked = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        if is_first && (is_marked || self.is_utf_16) {
            let reason = "the page is written in UTF-16, which is not understood";
            return Err(Error::refused(self.page.clone(), reason));
        }
        let Some(parser) = &mut self.parser else { return Ok(()) };
        let parsed = parser.write(bytes);
        parsed
            .map_err(|error| Error::refused(self.page.clone(), error.to_string()).caused_by(error))
    }

    fn finish(&mut self) -> Result<(), Error> {
        let ended = self.parser.take().map_or(Ok(()), lol_html::HtmlRewriter::end);
        ended.map_err(|error| Error::refused(self.page.clone(), error.to_string()).caused_by(error))
    }

    fn is_new(&mut self, link: &Result<Name, Error>) -> bool {
        let name = link.as_ref().map_or_else(Error::name, Name::clone);
        if self.repeats.len() >= REPEATS_MAX {
            self.repeats.clear();
        }
        self.repeats.insert(name)
    }
}

/// A parser that puts what selected elements link to into `found`.
fn parser(
    selector: Selector,
    base: Base,
    written_in: Option<AsciiCompatibleEncoding>,
    found: Found,
) -> send::HtmlRewriter<'static, Nowhere> {
    let base = Arc::new(Mutex::new(base));
    let given = Arc::clone(&base);
    let bases = element!("base[href]", move |element: &mut send::Element<'_, '_>| {
        if let Some(href) = element.get_attribute("href") {
            lock(&given).set(&href);
        }
        Ok(())
    });
    let handlers = send::ElementContentHandlers::default().element(
        move |element: &mut send::Element<'_, '_>| {
            let value = attribute(&element.tag_name())
                .iter()
                .find_map(|attribute| element.get_attribute(attribute));
            if let Some(link) = value.and_then(|value| lock(&base).link(&value)) {
                lock(&found).push(link);
            }
            Ok(())
        },
    );
    let settings = send::Settings::new_send()
        .append_element_content_handler(bases)
        .append_element_content_handler((Cow::Owned(selector), handlers))
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(PARSER_BYTES_MAX))
        .with_encoding(written_in.unwrap_or_else(AsciiCompatibleEncoding::utf_8))
        .with_adjust_charset_on_meta_tag(written_in.is_none())
        .with_strict(false);
    send::HtmlRewriter::new(settings, Nowhere)
}

/// The attributes by which an element links, the first that it has.
fn attribute(tag: &str) -> &'static [&'static str] {
    match tag {
        "a" | "area" | "link" | "base" => &["href"],
        "object" => &["data"],
        "img" | "script" | "iframe" | "frame" | "source" | "video" | "audio" | "embed"
        | "track" | "input" => &["src"],
        _ => &["href", "src"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// The links of a page that arrives in these pieces; errors as their texts.
    fn found(selector: &str, pieces: &[&[u8]]) -> Vec<String> {
        let url = url::Url::parse("https://h.example/d/").unwrap();
        let base = Base::of_url(url, Arc::default());
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let body = stream::iter(pieces).boxed();
        let open = async { Ok(Opened { base, written_in: None, body }) };
        let links = links(Name::from("https://h.example/d/"), selector, open.boxed());
        let links = block_on(links.collect::<Vec<_>>());
        let text = |link: Result<Entry, Error>| match link {
            Ok(entry) => entry.name.to_string_lossy().replace("https://h.example/", ""),
            Err(error) => error.to_string(),
        };
        links.into_iter().map(text).collect()
    }

    #[test]
    fn a_selector_without_a_bottom_is_refused() {
        let nested = |depth| format!("a{}[x]{}", ":not(".repeat(depth), ")".repeat(depth));
        let said = found(&nested(100_000), &[b"<a href=a>"]);
        assert!(said.len() == 1 && said[0].contains("no more than 64"), "{}", said[0].len());
        assert_eq!(found(&nested(1), &[b"<a href=a>"]), ["d/a"]);
    }

    #[test]
    fn each_element_links_by_its_own_attribute() {
        let page = b"<link href=l><img src=i data=x><object data=o></object><video src=v>\
            <source src=s></video><iframe src=f></iframe><embed src=e><area href=r>\
            <p href=p><div>no</div><a name=n>no</a><script src=j></script><audio src=u></audio>";
        let all = found("*", &[page]);
        assert_eq!(
            all,
            ["d/l", "d/i", "d/o", "d/v", "d/s", "d/f", "d/e", "d/r", "d/p", "d/j", "d/u"]
        );
    }

    #[test]
    fn the_selector_selects_and_a_tag_may_arrive_in_pieces() {
        let page = b"<!doctype html><base href=../up/><a href=a.gz>x</a><A HREF='b.GZ'>\
            <ul><li><a href=\"c.gz\">y</a></ul><a href=a.gz>again</a><!-- <a href=no> -->\
            <script>'<a href=no>'</script><img src=i.gz>";
        let pieces: Vec<&[u8]> = page.chunks(1).collect();
        assert_eq!(found("", &pieces), ["up/a.gz", "up/b.GZ", "up/c.gz"]);
        assert_eq!(found("a[href$=\".gz\" i]", &pieces), ["up/a.gz", "up/b.GZ", "up/c.gz"]);
        assert_eq!(found("li > a, img", &pieces), ["up/c.gz", "up/i.gz"]);
    }

    #[test]
    fn a_bad_selector_says_what_is_accepted() {
        for bad in ["a[", "a:hover", "a ~ b", "::x"] {
            let said = found(bad, &[b"<a href=x>"]);
            assert!(said.len() == 1 && said[0].contains("accepted are"), "{bad}: {said:?}");
        }
    }

    #[test]
    fn a_private_link_is_an_error_and_the_others_go_on() {
        let private = "<a href=http://127.0.0.1/y>";
        let page = format!("<a href=x>{private}<a href=z>{private}");
        let said = found("", &[page.as_bytes()]);
        assert_eq!(said.len(), 3);
        assert_eq!((&*said[0], &*said[2]), ("d/x", "d/z"));
        assert!(
            said[1].starts_with("http://127.0.0.1/y: 127.0.0.1 is in a private network"),
            "{said:?}"
        );
    }

    #[test]
    fn a_page_that_no_memory_holds_ends_in_an_error_behind_its_links() {
        let mut pieces: Vec<&[u8]> = vec![b"<a href=x><a href='"];
        let piece = vec![b'y'; 1 << 20];
        pieces.extend((0..20).map(|_| &*piece));
        let said = found("", &pieces);
        assert!(said.len() == 2 && said[0] == "d/x" && said[1].contains("memory"), "{said:?}");
        assert!(found("", &[b"\xff\xfe<\0a\0"])[0].contains("UTF-16"));
    }

    #[test]
    fn links_are_given_before_the_page_ends() {
        let url = url::Url::parse("https://h.example/d/").unwrap();
        let base = Base::of_url(url, Arc::default());
        let endless =
            stream::iter((0_u64..).map(|n| Ok(Bytes::from(format!("<p><a href={n}>{n}</a>")))));
        let open = async { Ok(Opened { base, written_in: None, body: endless.boxed() }) };
        let links = links(Name::from("https://h.example/d/"), "a", open.boxed());
        let last = block_on(links.skip(20_000).next()).unwrap().unwrap();
        assert_eq!(last.name, Name::from("https://h.example/d/20000"));
    }

    #[test]
    fn a_link_does_not_wait_for_the_end_of_those_that_repeat_it() {
        let url = url::Url::parse("https://h.example/d/").unwrap();
        let base = Base::of_url(url, Arc::default());
        let repeats = (0..1000).map(|_| Ok(Bytes::from_static(b"<a href=1>1</a>")));
        let body = stream::iter(repeats.chain([Ok(Bytes::from_static(b"<a href=2>2</a>"))]));
        let open = async { Ok(Opened { base, written_in: None, body: body.boxed() }) };
        let links = links(Name::from("https://h.example/d/"), "a", open.boxed());
        let batches = block_on(links.ready_chunks(64).map(|batch| batch.len()).collect::<Vec<_>>());
        assert_eq!(batches, [1, 1]);
    }
}
