//! Values that are computed where they are missing.

use refdb_kvcache::{Cache, Options};
use std::{cell::Cell, convert::Infallible};

fn open(dir: &std::path::Path) -> Cache {
    Cache::open(dir, Options::new(1 << 20)).expect("it opens")
}

#[test]
fn a_value_is_computed_once_and_an_error_is_the_callers() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let made = Cell::new(0);
    let make = || {
        made.set(made.get() + 1);
        Ok::<_, Infallible>(b"value".to_vec())
    };
    assert_eq!(cache.get_or_insert_with(b"failing", || Err("no")), Err("no"));
    assert!(cache.get(b"failing").is_none());
    assert_eq!(cache.get_or_insert_with(b"key", make).unwrap(), b"value");
    assert_eq!(cache.get_or_insert_with(b"key", make).unwrap(), b"value");
    assert_eq!(made.get(), 1);
    cache.close().unwrap();
    assert_eq!(open(dir.path()).get_or_insert_with(b"key", make).unwrap(), b"value");
    assert_eq!(made.get(), 1);
}

/// Without a ticket from before the computation, the older value would be stored.
#[test]
fn a_value_that_was_removed_while_it_was_computed_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let old = || {
        cache.remove(b"key").unwrap();
        Ok::<_, Infallible>(b"old".to_vec())
    };
    assert_eq!(cache.get_or_insert_with(b"key", old).unwrap(), b"old");
    assert!(cache.get(b"key").is_none());
    let overtaken = || {
        cache.put(b"key", b"new").unwrap();
        Ok::<_, Infallible>(b"old".to_vec())
    };
    assert_eq!(cache.get_or_insert_with(b"key", overtaken).unwrap(), b"old");
    assert_eq!(cache.get(b"key").unwrap().value, b"new");
}

#[test]
fn a_cache_that_cannot_take_the_value_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let too_large = vec![7; 1 << 20];
    assert_eq!(cache.get_or_insert_with(b"key", || Ok::<_, Infallible>(too_large.clone())).unwrap(), too_large);
    assert!(cache.get(b"key").is_none());
}
