//! A store of one's own, written with what `nearfirst` alone gives.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use nearfirst::bytes::Bytes;
use nearfirst::futures::{FutureExt as _, StreamExt as _, future, stream};
use nearfirst::{
    Answer, Costs, Device, Engine, EngineOptions, Entry, Name, Reading, Set, SetOptions, Spec,
    Store, Stores, StoresOptions,
};

const TEXT: &[u8] = b"text";

/// One object, whatever it is called.
#[derive(Debug)]
struct One;

impl Store for One {
    fn device(&self, _name: &Name) -> Device {
        Device::new("one")
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        let entry = Entry { size: Some(TEXT.len() as u64), ..Entry::named(name.clone()) };
        future::ready(Ok(entry)).boxed()
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let whole = 0..TEXT.len() as u64;
        let range = range.start.min(whole.end)..range.end.min(whole.end);
        let at = |offset| usize::try_from(offset).expect("within the text");
        let bytes = Bytes::from_static(&TEXT[at(range.start)..at(range.end)]);
        let bytes = stream::iter([Ok(bytes)]).boxed();
        let entry = Entry { size: Some(whole.end), ..entry.clone() };
        future::ready(Ok(Reading { entry, range, headers: Vec::new(), bytes })).boxed()
    }
}

#[test]
fn a_store_is_written_without_other_crates() {
    let one: Arc<dyn Store> = Arc::new(One);
    let schemes = HashMap::from([("one".to_owned(), one)]);
    let costs = Arc::new(Costs::load());
    let options = StoresOptions { schemes, ..StoresOptions::default() };
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &options));
    let engine = Engine::new(stores, costs, EngineOptions::default()).expect("threads");
    let set = Set::open(&engine, [Spec::list(["one://a"])], SetOptions::default());
    let member = set.next().expect("it is listed").expect("it can be read");
    assert_eq!(member.read().expect("it is near"), TEXT);
}
