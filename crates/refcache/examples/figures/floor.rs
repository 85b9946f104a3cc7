//! Look-ups beside nothing but the system calls that they make, on the same names.

use crate::{
    reads::{each_of, show},
    repository::{make, names, open, settings},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_refcache::{Trust, View};
use rustix::fs::{lstat, stat};
use std::{ffi::CString, fs, hint::black_box, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

pub(crate) fn measure(dir: &Path, refs: usize) {
    let names = names(refs);
    for format in ["files", "reftable"] {
        let repo = dir.join(format!("figures-{format}-{}.git", std::process::id()));
        make(&repo, format, &names);
        // JGit makes such folders, and a repository in use has them.
        for folder in ["refs/tags", "refs/changes/01"] {
            fs::create_dir_all(repo.join(folder)).expect("DIR is writable");
        }
        println!("## {format}, {refs} refs");
        let view = open(&repo, &settings(Trust::Always, None));
        let hot: Vec<BString> = names.iter().step_by(names.len() / 100).cloned().collect();
        for (what, names, step) in [("of a hundred names in turn", &hot, 1), ("anywhere", &names, 790_211)] {
            measure_one(&repo, format, &view, what, names, step);
        }
        fs::remove_dir_all(&repo).expect("a folder just made can be removed");
    }
}

fn measure_one(repo: &Path, format: &str, view: &Arc<View>, what: &str, names: &[BString], step: usize) {
    let packed = c_path(&repo.join("packed-refs"));
    let list = c_path(&repo.join("reftable/tables.list"));
    let look_up = |name: &BStr| assert!(black_box(view.get(name).expect("readable")).is_some());
    for name in names {
        look_up(name.as_bstr());
    }
    let mut at = 0;
    let mut next = || {
        at = (at + step) % names.len();
        names[at].as_bstr()
    };
    let mut path = repo.as_os_str().as_bytes().to_vec();
    path.push(b'/');
    let folder_len = path.len();
    let mut calls = |name: &BStr| {
        if format == "reftable" {
            let _ = black_box(stat(&*list));
            black_box(name.len());
            return;
        }
        path.truncate(folder_len);
        path.extend_from_slice(name);
        path.push(0);
        let c_path = std::ffi::CStr::from_bytes_with_nul(&path).expect("a name has no NUL");
        let _ = black_box(lstat(c_path));
        let _ = black_box(stat(&*packed));
    };
    // The two alternate, so that a busy machine slows down both.
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        floor.push(each_of(20_000, || calls(next())));
        ours.push(each_of(20_000, || look_up(next())));
    }
    let (ours, floor) = (ours.iter().min().copied(), floor.iter().min().copied());
    let (ours, floor) = (ours.unwrap_or_default(), floor.unwrap_or_default());
    show(&format!("the system calls alone, {what}"), floor);
    show(&format!("look-up, {what}"), ours);
    show(&format!("ours beyond it, {what}"), ours.saturating_sub(floor));
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL")
}
