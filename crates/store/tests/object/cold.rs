//! Storage classes of S3: told by listings, never read by accident, recalled on request.

use nearfirst_store::{Entry, Error, Name, Recall, Stores, Tier};
use sled::Place;
use testkit::server::{Link, Misbehaving, Moto};
use testkit::skip_unless;

use crate::{listed, open, read, read_entry, run, s3_stores, stat};

/// The one object that a pattern lists.
fn one(stores: &Stores, pattern: &str) -> Entry {
    let mut entries = listed(stores, pattern);
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0).unwrap()
}

#[test]
fn a_cold_object_is_told_by_its_listing_and_costs_no_request() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    moto.put("bucket/warm", "warm text", "STANDARD");
    moto.put("bucket/cold", "cold text", "GLACIER");
    moto.put("bucket/deep", "deep text", "DEEP_ARCHIVE");
    let proxy = Misbehaving::in_front_of(moto.address(), Link::default());
    let stores = s3_stores(&proxy.endpoint());
    assert_eq!(one(&stores, "s3://bucket/w*").tier, Tier::Online);
    assert_eq!(one(&stores, "s3://bucket/d*").tier, Tier::Cold { class: "DEEP_ARCHIVE".into() });
    let cold = one(&stores, "s3://bucket/c*");
    assert_eq!(cold.tier, Tier::Cold { class: "GLACIER".into() });
    proxy.reset_counts();
    let read_cold = read_entry(&stores, &cold, 0..4);
    assert!(matches!(read_cold, Err(Error::Cold { class, .. }) if class == "GLACIER"));
    assert_eq!(proxy.total().requests, 0);
    let store = open(&stores, "s3://bucket/cold");
    let extents = run(store.locate(&cold)).unwrap();
    assert_eq!(extents[0].place, Place::Cold);
    assert_eq!(extents[0].device.name(), "cold:s3://bucket");
    assert_eq!(store.device(&cold.name).name(), "s3://bucket");
}

#[test]
fn a_name_alone_turns_out_cold_when_it_is_read() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    moto.put("bucket/cold", "cold text", "GLACIER");
    let stores = s3_stores(&moto.endpoint());
    assert_eq!(
        stat(&stores, "s3://bucket/cold").unwrap().tier,
        Tier::Cold { class: "GLACIER".into() }
    );
    let told = read(&stores, "s3://bucket/cold", 0..4);
    assert!(matches!(told, Err(Error::Cold { ref class, .. }) if class == "GLACIER"), "{told:?}");
}

#[test]
fn a_recall_is_asked_for_waited_for_and_then_read() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    moto.put("bucket/cold", "cold text", "GLACIER");
    moto.restore_takes(2);
    let stores = s3_stores(&moto.endpoint());
    let name = "s3://bucket/cold";
    let store = open(&stores, name);
    let recall = || run(store.recall(&Entry::named(Name::from(name)))).unwrap();
    assert!(matches!(recall(), Recall::Pending { .. }));
    let recalling = Tier::Recalling { class: "GLACIER".into() };
    let looks = std::iter::repeat_with(|| stat(&stores, name).unwrap());
    let looks: Vec<_> = looks.take(10).map(|entry| entry.tier).collect();
    assert!(looks.contains(&recalling), "{looks:?}");
    let entry = stat(&stores, name).unwrap();
    assert!(matches!(&entry.tier, Tier::Recalled { until: Some(_), .. }), "{entry:?}");
    assert_eq!(read_entry(&stores, &entry, 0..u64::MAX).unwrap(), "cold text");
    assert_eq!(recall(), Recall::Ready);
}

#[test]
fn what_is_not_cold_needs_no_recall() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    moto.put("bucket/warm", "warm text", "STANDARD");
    let stores = s3_stores(&moto.endpoint());
    let store = open(&stores, "s3://bucket/warm");
    let recall = |name: &str| run(store.recall(&Entry::named(Name::from(name))));
    assert_eq!(recall("s3://bucket/warm").unwrap(), Recall::Ready);
    assert!(matches!(recall("s3://bucket/missing"), Err(Error::NotFound { .. })));
}
