use super::*;
use crate::{Cursor, RefView, Result, TargetView, backend::Peeled};
use bstr::{BStr, ByteSlice};
use std::ops::ControlFlow;

/// A cursor over sorted names, which counts the seeks and the names that it has returned.
struct Names {
    names: Vec<&'static str>,
    at: usize,
    seeks: usize,
    returned: usize,
}

impl Names {
    fn new(names: &[&'static str]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        Names { names, at: 0, seeks: 0, returned: 0 }
    }
}

impl Cursor for &mut Names {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        self.seeks += 1;
        self.at = self.names.partition_point(|known| known.as_bytes() < name.as_bytes());
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let Some(name) = self.names.get(self.at) else { return Ok(None) };
        self.at += 1;
        self.returned += 1;
        let target = TargetView::Symbolic("refs/namespaces/a/refs/heads/x".into());
        Ok(Some(RefView { name: (*name).into(), target, peeled: Peeled::Unknown }))
    }
}

fn rest(mut cursor: impl Cursor) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(view) = cursor.next().unwrap() {
        names.push(view.name.to_string());
    }
    names
}

const NAMES: &[&str] = &[
    "refs/changes/1",
    "refs/changes/2",
    "refs/changes/3",
    "refs/changes-x",
    "refs/heads/a",
    "refs/heads/b",
    "refs/namespaces/a/refs/heads/x",
    "refs/namespaces/ab/refs/heads/y",
    "refs/tags/a",
];

#[test]
fn a_prefix_ends_the_walk_and_bounds_a_seek() {
    let mut names = Names::new(NAMES);
    let mut cursor = WithPrefix::new(&mut names, "refs/heads/").unwrap();
    cursor.seek("a".into()).unwrap();
    assert_eq!(rest(cursor), ["refs/heads/a", "refs/heads/b"]);
    // The inner cursor returned one name after those with the prefix, and none before them.
    assert_eq!(names.returned, 3);
    let mut cursor = WithPrefix::new(&mut names, "refs/heads/").unwrap();
    cursor.seek("refs/heads/aa".into()).unwrap();
    assert_eq!(rest(cursor), ["refs/heads/b"]);
}

#[test]
fn an_excluded_subtree_costs_one_seek() {
    let mut names = Names::new(NAMES);
    let excluded = ["refs/changes/", "refs/changes/2", "refs/namespaces/"].map(BString::from);
    let cursor = Excluding::new(&mut names, excluded);
    assert_eq!(rest(cursor), ["refs/changes-x", "refs/heads/a", "refs/heads/b", "refs/tags/a"]);
    assert_eq!((names.seeks, names.returned), (2, 6));
}

#[test]
fn a_visitor_of_what_is_not_excluded_gets_what_next_returns_and_can_go_on_after_a_break() {
    let mut names = Names::new(NAMES);
    let excluded = ["refs/changes/", "refs/changes/2", "refs/namespaces/"].map(BString::from);
    let mut cursor = Excluding::new(&mut names, excluded);
    let mut seen = Vec::new();
    while cursor
        .for_each(&mut |view| {
            seen.push(view.name.to_string());
            ControlFlow::Break(())
        })
        .unwrap()
        .is_break()
    {}
    assert_eq!(seen, ["refs/changes-x", "refs/heads/a", "refs/heads/b", "refs/tags/a"]);
    assert_eq!((names.seeks, names.returned), (2, 6));
    let mut all = Excluding::new(&mut names, [BString::default()]);
    assert!(all.for_each(&mut |_| ControlFlow::Break(())).unwrap().is_continue());
}

#[test]
fn nothing_follows_the_last_prefix_there_can_be() {
    assert_eq!(end_of(b"a/"), Some("a0".into()));
    assert_eq!(end_of(b"a\xff\xff"), Some("b".into()));
    assert_eq!(end_of(b"\xff"), None);
    let mut names = Names::new(NAMES);
    assert_eq!(rest(Excluding::new(&mut names, [BString::default()])), [""; 0]);
}

#[test]
fn a_namespace_shows_short_names_and_views_stack() {
    let mut names = Names::new(NAMES);
    let mut cursor = InNamespace::new(&mut names, "refs/namespaces/a/").unwrap();
    let view = cursor.next().unwrap().unwrap();
    assert_eq!(view.name, "refs/heads/x");
    assert_eq!(view.target, TargetView::Symbolic("refs/heads/x".into()));
    assert!(cursor.next().unwrap().is_none());
    let cursor = InNamespace::new(&mut names, "refs/namespaces/a/").unwrap();
    let mut cursor = WithPrefix::new(cursor, "refs/heads/").unwrap();
    cursor.seek("refs/heads/x".into()).unwrap();
    assert_eq!(rest(cursor), ["refs/heads/x"]);
}
