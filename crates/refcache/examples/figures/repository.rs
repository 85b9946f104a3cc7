//! The repositories that are measured.

use bstr::{BString, ByteSlice};
use refdb_refcache::{Trust, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_types::{HashKind, ObjectId};
use reftable::{RefRecord, RefValue, TableWriter, WriteOptions};
use std::{fs, io::Write, path::Path, sync::Arc, time::Duration};

/// Three refs a change, as Gerrit has them, and a branch.
pub(crate) fn names(refs: usize) -> Vec<BString> {
    let mut names: Vec<BString> = (0..refs / 3)
        .flat_map(|change| {
            ["1", "2", "meta"].map(|last| format!("refs/changes/{:02}/{change}/{last}", change % 100).into())
        })
        .collect();
    names.push("refs/heads/master".into());
    names.sort_unstable();
    names
}

pub(crate) fn id(at: usize) -> ObjectId {
    let mut bytes = [0; 20];
    for (part, salt) in bytes.chunks_mut(8).zip(1u64..) {
        let mut mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt << 17);
        mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        part.copy_from_slice(&mixed.to_be_bytes()[..part.len()]);
    }
    ObjectId::from_bytes(HashKind::Sha1, &bytes).expect("twenty bytes")
}

pub(crate) fn make(repo: &Path, format: &str, names: &[BString]) {
    for folder in ["objects", "refs/heads", "reftable"] {
        fs::create_dir_all(repo.join(folder)).expect("DIR is writable");
    }
    let reftable = format == "reftable";
    let config = if reftable {
        "\trepositoryformatversion = 1\n[extensions]\n\trefstorage = reftable\n"
    } else {
        "\trepositoryformatversion = 0\n"
    };
    fs::write(repo.join("config"), format!("[core]\n\tbare = true\n{config}")).expect("written");
    fs::write(repo.join("HEAD"), if reftable { "ref: refs/heads/.invalid\n" } else { "ref: refs/heads/master\n" })
        .expect("written");
    if reftable {
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut bytes).expect("good options");
        let head =
            RefRecord { name: "HEAD".into(), update_index: 1, value: RefValue::Symbolic("refs/heads/master".into()) };
        writer.add_ref(&head).expect("in order");
        for (at, name) in names.iter().enumerate() {
            let record = RefRecord { name: name.as_bstr(), update_index: 1, value: RefValue::Direct(id(at)) };
            writer.add_ref(&record).expect("in order");
        }
        writer.finish().expect("finished");
        let table = "0x000000000001-0x000000000001-00000001.ref";
        fs::write(repo.join("reftable").join(table), bytes).expect("written");
        fs::write(repo.join("reftable/tables.list"), format!("{table}\n")).expect("written");
    } else {
        let file = fs::File::create(repo.join("packed-refs")).expect("created");
        let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
        out.write_all(b"# pack-refs with: peeled fully-peeled sorted \n").expect("written");
        for (at, name) in names.iter().enumerate() {
            writeln!(out, "{} {name}", id(at)).expect("written");
        }
        out.flush().expect("written");
        fs::remove_dir(repo.join("reftable")).expect("empty");
    }
    // Time stamps that are too recent prove nothing.
    std::thread::sleep(Duration::from_millis(100));
}

pub(crate) fn settings(trust: Trust, believe: Option<Duration>) -> ViewSettings {
    let trust = TrustSettings { packed_refs: trust, loose_refs: trust, tables_list: trust, believe };
    ViewSettings { trust, ..ViewSettings::default() }
}

pub(crate) fn open(repo: &Path, settings: &ViewSettings) -> Arc<View> {
    Views::new(&ViewsSettings::default()).open(repo, settings).expect("opened")
}
