//! An open dynamic set.

use std::collections::HashSet;
use std::fmt;
use std::iter::FusedIterator;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use fetch::engine::{self, Arrival, Engine, Feed};
use fetch::scheduler::{Origin, SetTerms};
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use store::{Entries, Entry, Error, Name, Sequence, lock};

use crate::comparing::Comparing;
use crate::listing::Listing;
use crate::member::{Member, MemberError};
use crate::options::{Duplicates, Order, SetOptions};
use crate::source::{Anew, Source};
use crate::taken::Taken;
use crate::wait::wait;
use crate::{Cursor, Spec, algebra, order};

/// An open dynamic set (Steere, SOSP '97, section 3): unordered, immutable,
/// without duplicates; it lives as long as this value.
///
/// It guarantees: every member satisfied its spec at some time in the set's
/// life; once a member, always a member; it is current, but not necessarily
/// complete. Names become known as they are needed. Nothing is fetched before
/// the first member is asked for.
///
/// Several threads may iterate one set at once: each member goes to one of them.
pub struct Set {
    engine: Engine,
    options: SetOptions,
    source: Source,
    listing: Arc<Listing>,
    feed: OnceLock<Feed>,
    taken: Mutex<Vec<u32>>,
    comparison: Mutex<Comparison>,
}

/// Of a set whose members are told apart by their content.
#[derive(Debug, Default)]
struct Comparison {
    contents: HashSet<blake3::Hash>,
    /// Members that arrived and are not compared yet, and tasks that look whether one has.
    under_way: usize,
    /// Those of them that arrived for tasks that left.
    left: Vec<(u64, Comparing)>,
    /// Tasks for which there is nothing but what others may leave.
    waiting: Vec<Waker>,
}

/// A task's place among the consumers of a set, and the member that it waits to be compared.
#[derive(Debug, Default)]
pub struct Turn {
    place: engine::Turn,
    /// With what the set knows it by.
    comparing: Option<(u64, Comparing)>,
}

impl Set {
    /// The set of the names that these specs stand for; in the order of the
    /// specs if [`Order::Listed`] or [`Order::Replay`] is asked for, else as they become known.
    pub fn open(
        engine: &Engine,
        specs: impl IntoIterator<Item = Spec>,
        options: SetOptions,
    ) -> Self {
        let specs: Vec<Spec> = specs.into_iter().collect();
        let stores = Arc::clone(engine.stores());
        let base = Path::new("");
        let source: Arc<dyn Fn() -> Entries + Send + Sync> =
            if options.order.sequence() == Sequence::InTurn {
                Arc::new(move || {
                    let stores = Arc::clone(&stores);
                    let each = stream::iter(specs.clone());
                    each.flat_map(move |spec| Cursor::open(Arc::clone(&stores), spec, base)).boxed()
                })
            } else {
                Arc::new(move || Cursor::of_all(Arc::clone(&stores), specs.clone(), base).boxed())
            };
        Self::from_source(engine, source, options)
    }

    /// The set of the names that `source` gives, each time it is called anew.
    pub fn from_source(
        engine: &Engine,
        source: Arc<dyn Fn() -> Entries + Send + Sync>,
        options: SetOptions,
    ) -> Self {
        let source = Source::new(Arc::new(move |_: &mut Anew| source()));
        let listing = source.listing(&mut Anew::default());
        Self::listed_by(engine, source, listing, options)
    }

    /// With the names of `listing`, and those that `source` gives when it is evaluated anew.
    fn listed_by(
        engine: &Engine,
        source: Source,
        listing: Arc<Listing>,
        options: SetOptions,
    ) -> Self {
        Self {
            engine: engine.clone(),
            options,
            source,
            listing,
            feed: OnceLock::new(),
            taken: Mutex::default(),
            comparison: Mutex::default(),
        }
    }

    /// The next member that is ready, waiting for it; `None` after the last.
    ///
    /// A member that cannot be read is an error that names it, once; the others go on.
    ///
    /// # Panics
    /// At the end, if what lists or ranks the names panicked, or a store's [`device`](store::Store::device)
    /// or [`file`](store::Store::file): with the text of that, each time.
    pub fn next(&self) -> Option<Result<Member, MemberError>> {
        if self.options.duplicates == Duplicates::ByContent {
            return self.wait(Members::of(self).next());
        }
        let arrival = self.feed().next()?;
        Some(arrived(arrival).map(|(tag, member)| self.given(tag, member)))
    }

    /// What is left of the members, as they become ready; it panics as [`Set::next`] does.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self)
    }

    /// The members as a stream, for a task of any runtime; it panics as [`Set::next`] does.
    pub fn stream(&self) -> impl Stream<Item = Result<Member, MemberError>> + Send + '_ {
        Members::of(self)
    }

    /// As the next of [`Set::stream`], for a task that does not borrow the set: it keeps `turn` from
    /// one poll to the next, polls again once it was woken, and [leaves](Set::leave) if it does not.
    ///
    /// # Panics
    /// As [`Set::next`].
    pub fn poll_next(
        &self,
        context: &Context<'_>,
        turn: &mut Turn,
    ) -> Poll<Option<Result<Member, MemberError>>> {
        loop {
            if let Some((tag, comparing)) = &mut turn.comparing {
                let tag = *tag;
                let compared =
                    ready!(comparing.poll_unpin(&mut Context::from_waker(context.waker())));
                turn.comparing = None;
                if let Some(member) = self.first_of_its_content(tag, compared) {
                    turn.place.served();
                    return Poll::Ready(Some(member));
                }
            }
            let compares = self.options.duplicates == Duplicates::ByContent;
            if compares {
                // Before it is taken: who sees the end from then on waits for it.
                lock(&self.comparison).under_way += 1;
            }
            turn.comparing = match self.feed().poll_next(context, &mut turn.place) {
                Poll::Ready(Some(arrival)) => match arrived(arrival) {
                    Ok((tag, member)) if compares => {
                        Some((tag, Comparing::begin(self.engine.handle(), member)))
                    }
                    arrived => {
                        if compares {
                            self.one_less_is_under_way();
                        }
                        turn.place.served();
                        let member = arrived.map(|(tag, member)| self.given(tag, member));
                        return Poll::Ready(Some(member));
                    }
                },
                // From here on who leaves a member wakes this task.
                none => {
                    if compares {
                        self.one_less_is_under_way();
                    }
                    let mut comparison = lock(&self.comparison);
                    let left = comparison.left.pop();
                    if left.is_none() {
                        if none.is_pending() || comparison.under_way == 0 {
                            return none.map(|_| None);
                        }
                        comparison.waiting.push(context.waker().clone());
                        return Poll::Pending;
                    }
                    drop(comparison);
                    self.feed().leave(&mut turn.place);
                    left
                }
            };
        }
    }

    /// A task that polled does not wait any more: a member that it was woken for, or that is being
    /// compared for it, is another's.
    pub fn leave(&self, turn: &mut Turn) {
        let Some(feed) = self.feed.get() else { return };
        let mut comparison = lock(&self.comparison);
        comparison.left.extend(turn.comparing.take());
        let is_left = !comparison.left.is_empty();
        let waiting = if is_left { std::mem::take(&mut comparison.waiting) } else { Vec::new() };
        drop(comparison);
        feed.leave(&mut turn.place);
        if is_left {
            feed.wake_task();
        }
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What is in either set: a new set, of names that become known in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if Arc::ptr_eq(&self.listing, &other.listing) {
            return self.again();
        }
        self.made_of(other, algebra::union)
    }

    /// What is in both sets: a new set.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if Arc::ptr_eq(&self.listing, &other.listing) {
            return self.again();
        }
        self.made_of(other, algebra::intersection)
    }

    /// What is in this set and not in the other, which is listed whole first: a new set.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.made_of(other, algebra::difference)
    }

    /// The members that satisfy a predicate on what listing told of them: a new set.
    ///
    /// Of a file of this machine that is its name alone; a predicate that wants to know more asks for it
    /// ([`store::Costs::known`]).
    ///
    /// Whoever asks the new set calls the predicate, threads of the engine among them. It may ask other
    /// sets what they have ([`Set::contains`], [`Set::size`]), but takes no members of any.
    ///
    /// # Panics
    /// Whoever asks the new set, if its predicate asks that set, or one that is made of it. Sets whose
    /// predicates ask one another in two threads may wait for ever.
    #[must_use]
    pub fn subset<P>(&self, predicate: P) -> Self
    where
        P: Fn(&Entry) -> bool + Send + Sync + 'static,
    {
        let predicate = Arc::new(predicate);
        let clock = self.engine.costs().clock().clone();
        let chosen = move |of: &Arc<Listing>| {
            let predicate = Arc::clone(&predicate);
            algebra::subset(of, clock.clone(), move |entry| predicate(entry))
        };
        let listing = Listing::new(chosen(&self.listing));
        let of = self.source.clone();
        let source = Source::new(Arc::new(move |anew| chosen(&of.listing(anew))));
        Self::listed_by(&self.engine, source, listing, self.options.clone())
    }

    /// The same names, of which each is a member of the new set.
    fn again(&self) -> Self {
        let (source, listing) = (self.source.clone(), Arc::clone(&self.listing));
        Self::listed_by(&self.engine, source, listing, self.options.clone())
    }

    fn made_of(&self, other: &Self, join: fn(&Arc<Listing>, &Arc<Listing>) -> Entries) -> Self {
        let listing = Listing::new(join(&self.listing, &other.listing));
        let (left, right) = (self.source.clone(), other.source.clone());
        // What the other has begun to list goes on in its engine.
        let lives = other.engine.clone();
        let source = Source::new(Arc::new(move |anew| {
            let _engine = &lives;
            join(&left.listing(anew), &right.listing(anew))
        }));
        Self::listed_by(&self.engine, source, listing, self.options.clone())
    }

    /// Whether a name is a member; waits for the listing to meet it, or to end.
    pub fn contains(&self, name: &Name) -> bool {
        self.wait(self.lists(name))
    }

    /// As [`Set::contains`], for a task of the engine's runtime, which may outlive the set.
    pub fn lists(&self, name: &Name) -> impl Future<Output = bool> + Send + 'static + use<> {
        let (listing, name) = (Arc::clone(&self.listing), name.clone());
        async move {
            let mut known = 0;
            loop {
                if listing.contains(&name) {
                    return true;
                }
                if !listing.beyond(known).await {
                    return false;
                }
                known = listing.known().len();
            }
        }
    }

    /// How many members there are; waits for the listing to end.
    pub fn size(&self) -> u64 {
        self.wait(self.listed())
    }

    /// As [`Set::size`], for a task of the engine's runtime, which may outlive the set.
    pub fn listed(&self) -> impl Future<Output = u64> + Send + 'static + use<> {
        let listing = Arc::clone(&self.listing);
        async move {
            listing.all().await;
            let known = listing.known();
            (known.len() - known.errors()) as u64
        }
    }

    /// Whether there is a member; waits for the first name. For a task of the engine's runtime, which
    /// may outlive the set.
    pub fn lists_any(&self) -> impl Future<Output = bool> + Send + 'static + use<> {
        let listing = Arc::clone(&self.listing);
        async move {
            let mut index = 0;
            while listing.beyond(index).await {
                if listing.known().get(index).is_ok() {
                    return true;
                }
                index += 1;
            }
            false
        }
    }

    /// How many names are known so far, what could not be listed among them: each comes as a member or as
    /// an error, but for members left out as [duplicates by content](Duplicates::ByContent).
    pub fn known(&self) -> u64 {
        self.listing.known().len() as u64
    }

    /// What first could not be listed, of what is known so far, so that there may be more members than
    /// are known. A pattern that matches nothing is none of that.
    pub fn doubt(&self) -> Option<Arc<Error>> {
        self.listing.known().doubt()
    }

    /// Whether all names are known: nobody waits for a listing any more.
    pub fn is_complete(&self) -> bool {
        self.listing.is_complete()
    }

    /// Whether somebody waits for more names to become known.
    pub fn is_listing(&self) -> bool {
        self.listing.is_waited_for()
    }

    /// The names and properties of the members, as they become known, from the
    /// first; what could not be listed is an error. Nothing is fetched.
    pub fn digest(&self) -> impl Iterator<Item = Result<Entry, Arc<Error>>> + use<> {
        // Who asks from several threads asks again after the end.
        let (mut entries, engine) = (Box::pin(self.entries().fuse()), self.engine.clone());
        std::iter::from_fn(move || wait(&engine, entries.next()))
    }

    /// As [`Set::digest`], by name, byte by byte: nothing comes before all is known. Of each name that
    /// takes eight bytes beside what the set keeps.
    pub fn digest_by_name(&self) -> impl Iterator<Item = Result<Entry, Arc<Error>>> + use<> {
        self.wait(self.listing.all());
        let listing = Arc::clone(&self.listing);
        let indices = order::sorted(&listing, &Order::Name, &[]);
        indices.into_iter().map(move |index| listing.known().get(index))
    }

    /// What [`Set::digest`] gives at this place, once it is known; `None` past the last.
    pub fn entry(&self, index: usize) -> Option<Result<Entry, Arc<Error>>> {
        let is_there = self.listing.known().len() > index || self.wait(self.listing.beyond(index));
        is_there.then(|| self.listing.known().get(index))
    }

    /// Whether [`Set::entry`] gives something at this place, once that is known: for a task of the
    /// engine's runtime, which may outlive the set. Who gives up waiting loses nothing.
    pub fn has_entry(&self, index: usize) -> impl Future<Output = bool> + Send + 'static + use<> {
        let listing = Arc::clone(&self.listing);
        async move { listing.beyond(index).await }
    }

    /// As [`Set::digest`], for a task of the engine's runtime.
    pub fn entries(
        &self,
    ) -> impl Stream<Item = Result<Entry, Arc<Error>>> + Send + 'static + use<> {
        self.listing.walk().map(|(_, entry)| entry)
    }

    /// The name delivered at this place, from 0 on, if so many were.
    pub fn taken(&self, index: usize) -> Option<Name> {
        let known = self.listing.known();
        let taken = lock(&self.taken);
        taken.get(index).map(|&index| Name::new(known.name(index as usize)))
    }

    /// The names delivered so far, in the order they were: what [`crate::Order::Replay`] takes.
    pub fn order_taken(&self) -> Vec<Name> {
        self.taken_so_far().names()
    }

    /// As [`Set::order_taken`], to be told when somebody asks for it, if the set is gone by then, too.
    pub fn taken_so_far(&self) -> Taken {
        let taken = lock(&self.taken);
        Taken::new(self.listing.roster(), taken.clone())
    }

    /// The same specs evaluated anew, those of the sets that it is made of, too, each once: a new set,
    /// from the beginning.
    #[must_use]
    pub fn rewind(&self) -> Self {
        let source = self.source.clone();
        let listing = source.listing(&mut Anew::default());
        Self::listed_by(&self.engine, source, listing, self.options.clone())
    }

    /// The engine that brings its members near.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn feed(&self) -> &Feed {
        self.feed.get_or_init(|| {
            let wants = order::wants(&self.listing, &self.options);
            let order = order::terms(&self.options.order);
            self.engine.open(wants, SetTerms { origin: Origin::Told, order })
        })
    }

    /// A member that was compared, unless it is the same as one before it.
    fn first_of_its_content(
        &self,
        tag: u64,
        compared: Result<(Member, blake3::Hash), MemberError>,
    ) -> Option<Result<Member, MemberError>> {
        self.one_less_is_under_way();
        let first = match compared {
            Ok((member, hash)) => {
                lock(&self.comparison).contents.insert(hash).then_some(Ok(member))
            }
            Err(error) => Some(Err(error)),
        };
        first.map(|first| first.map(|member| self.given(tag, member)))
    }

    /// After the last, who waits for what others may leave looks again.
    fn one_less_is_under_way(&self) {
        let mut comparison = lock(&self.comparison);
        comparison.under_way -= 1;
        let is_over = comparison.under_way == 0;
        let waiting = if is_over { std::mem::take(&mut comparison.waiting) } else { Vec::new() };
        drop(comparison);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// A member that is handed out.
    fn given(&self, tag: u64, member: Member) -> Member {
        let mut taken = lock(&self.taken);
        taken.push(u32::try_from(tag).expect("a set has fewer than 2^32 names"));
        member
    }

    /// Waits for a future on this thread, in the engine's runtime.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        wait(&self.engine, future)
    }
}

/// The member that arrived, and what its set knows it by.
fn arrived(arrival: Arrival) -> Result<(u64, Member), MemberError> {
    let Arrival { entry, tag, near } = arrival;
    match near {
        Ok(near) => Ok((tag, Member::new(entry, near))),
        Err(cause) => Err(MemberError { name: entry.name, cause }),
    }
}

/// The members of a set, as they become ready.
#[derive(Debug)]
pub struct Iter<'a>(&'a Set);

impl Iterator for Iter<'_> {
    type Item = Result<Member, MemberError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

/// What was the last stays the last.
impl FusedIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Set {
    type Item = Result<Member, MemberError>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The members of a set for a task, which counts as one that waits until this is dropped.
struct Members<'a> {
    set: &'a Set,
    turn: Turn,
}

impl<'a> Members<'a> {
    fn of(set: &'a Set) -> Self {
        Self { set, turn: Turn::default() }
    }
}

impl Stream for Members<'_> {
    type Item = Result<Member, MemberError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { set, turn } = &mut *self;
        set.poll_next(context, turn)
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        self.set.leave(&mut self.turn);
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set")
            .field("options", &self.options)
            .field("listing", &self.listing)
            .finish_non_exhaustive()
    }
}
