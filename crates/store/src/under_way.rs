//! Which listings are under way, so that who waits for names can say from where.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, stream};

use crate::sync::lock;
use crate::{Entries, Name, Query, program};

/// The listings under way, by when they were begun.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<BTreeMap<u64, Name>>);

impl UnderWay {
    /// The one that was begun first.
    pub(crate) fn first(&self) -> Option<Name> {
        lock(&self.0).values().next().cloned()
    }

    /// The same names; their listing is under way from when the first is asked for to their end.
    pub(crate) fn noting(self: &Arc<Self>, query: &Query, entries: Entries) -> Entries {
        let (this, name) = (Arc::clone(self), label(query));
        let begun = async move {
            let noted = this.begin(name);
            entries.inspect(move |_| {
                let _until_the_end = &noted;
            })
        };
        stream::once(begun).flatten().boxed()
    }

    fn begin(self: Arc<Self>, name: Name) -> Noted {
        let mut names = lock(&self.0);
        let number = names.last_key_value().map_or(0, |(last, _)| last + 1);
        names.insert(number, name);
        drop(names);
        Noted { all: self, number }
    }
}

/// A listing under way, while it lives.
struct Noted {
    all: Arc<UnderWay>,
    number: u64,
}

impl Drop for Noted {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.number);
    }
}

/// What is listed, for people: a pattern, a database or page, a program and its folder.
fn label(query: &Query) -> Name {
    match query {
        Query::Run { folder, words } => {
            Name::from([folder.as_bytes(), b"%", program::shown(words).as_bytes(), b"%"].concat())
        }
        query => query.prefix(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::channel::mpsc::unbounded;

    use super::*;
    use crate::{Entry, Sequence};

    #[test]
    fn a_listing_is_under_way_from_its_first_question_to_its_end() {
        let all = Arc::<UnderWay>::default();
        let (names, source) = unbounded();
        let pattern = Query::Glob(Name::from("s3://b/*"), Sequence::InTurn);
        let mut listing = all.noting(&pattern, source.boxed());
        assert_eq!(all.first(), None);
        assert!(listing.next().now_or_never().is_none());
        assert_eq!(all.first(), Some(Name::from("s3://b/*")));

        let words = ["curl", "https://u:secret@h/"].map(Into::into).to_vec();
        let program = Query::Run { folder: Name::from("/src/"), words };
        let mut other = all.noting(&program, stream::pending().boxed());
        assert!(other.next().now_or_never().is_none());
        assert_eq!(all.first(), Some(Name::from("s3://b/*")), "it is waited for longer");

        names.unbounded_send(Ok(Entry::named(Name::from("s3://b/a")))).unwrap();
        drop(names);
        assert_eq!(listing.by_ref().count().now_or_never(), Some(1));
        assert_eq!(all.first(), Some(Name::from("/src/%curl https://u@h/%")));
        drop(other);
        assert_eq!(all.first(), None);
    }
}
