//! The crash explorer finds planted faults, and accepts correct states.

use refdb_testkit::crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere};
use refdb_vfs::{Error, Fs};
use std::{cell::Cell, path::Path};

/// Returns a folder with a single file `list` that contains "old".
fn start() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("list"), "old").expect("a file in it");
    dir
}

/// Replaces `list` correctly, except for the syncs that are left out.
fn replace(fs: &Fs, dir: &Path, sync_file: bool, sync_dir: bool) -> Result<(), Error> {
    let (temp, list) = (dir.join("list.lock"), dir.join("list"));
    let written = (|| {
        let mut file = fs.create_new(&temp, 0o666)?;
        file.write_all(b"new and ")?;
        file.write_all(b"longer")?;
        if sync_file { file.sync() } else { Ok(()) }
    })();
    if let Err(error) = written.and_then(|()| fs.rename(&temp, &list)) {
        let _ = fs.remove_file(&temp);
        return Err(error);
    }
    if sync_dir { fs.sync_dir(dir) } else { Ok(()) }
}

fn replace_well(fs: &Fs, dir: &Path) -> Result<(), Error> {
    replace(fs, dir, true, true)
}

fn old_or_new(dir: &Path, crash: &Crash) {
    let content = std::fs::read_to_string(dir.join("list")).expect("the file is there");
    assert!(content == "new and longer" || content == "old" && !crash.claimed, "{crash}: {content:?}");
}

#[test]
fn a_replacement_by_rename_survives_being_killed_everywhere() {
    let looked = Cell::new(0);
    kill_everywhere(start().path(), replace_well, |dir, crash| {
        looked.set(looked.get() + 1);
        old_or_new(dir, crash);
    });
    // Create, two writes that are torn in three ways each, sync, rename, sync of the folder, and the end.
    assert_eq!(looked.get(), 6 + 2 * 3 + 1);
}

#[test]
fn a_refused_operation_leaves_no_temporary_file() {
    refuse_everywhere(start().path(), replace_well, |dir, crash| {
        assert!(!dir.join("list.lock").exists(), "{crash}");
        let content = std::fs::read_to_string(dir.join("list")).unwrap();
        assert!(content == "old" || content == "new and longer");
    });
}

#[test]
fn a_replacement_that_is_synced_survives_a_power_loss_everywhere() {
    for assumed in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(start().path(), assumed, replace_well, old_or_new);
    }
}

#[test]
#[should_panic(expected = "old_or_new")]
fn a_write_in_place_is_found_out_by_a_kill() {
    let in_place = |fs: &Fs, dir: &Path| {
        fs.remove_file(&dir.join("list"))?;
        fs.create_new(&dir.join("list"), 0o666)?.write_all(b"new and longer")
    };
    kill_everywhere(start().path(), in_place, |dir, _: &Crash| {
        let content = std::fs::read_to_string(dir.join("list")).unwrap_or_default();
        assert!(content == "old" || content == "new and longer", "old_or_new");
    });
}

#[test]
#[should_panic(expected = "old_or_new")]
fn a_missing_sync_of_the_file_is_found_out_by_a_power_loss() {
    lose_power_everywhere(
        start().path(),
        Disk::Journaled,
        |fs, dir| replace(fs, dir, false, true),
        |dir, _| {
            let content = std::fs::read_to_string(dir.join("list")).unwrap();
            assert!(content == "old" || content == "new and longer", "old_or_new");
        },
    );
}

#[test]
#[should_panic(expected = "claimed")]
fn a_missing_sync_of_the_folder_is_found_out_by_a_power_loss() {
    lose_power_everywhere(
        start().path(),
        Disk::Journaled,
        |fs, dir| replace(fs, dir, true, false),
        |dir, crash| {
            let content = std::fs::read_to_string(dir.join("list")).unwrap();
            assert!(content == "new and longer" || !crash.claimed, "claimed");
        },
    );
}

#[test]
#[should_panic(expected = "the name leads nowhere")]
fn a_rename_before_its_target_is_synced_is_found_out_on_an_unordered_disk() {
    // The list names a table whose entry in the folder was never synced.
    let workload = |fs: &Fs, dir: &Path| {
        let mut table = fs.create_new(&dir.join("table"), 0o666)?;
        table.write_all(b"content")?;
        table.sync()?;
        fs.create_dir(&dir.join("lists"), 0o777)?;
        fs.sync_dir(dir)?;
        let mut list = fs.create_new(&dir.join("lists/list.lock"), 0o666)?;
        list.write_all(b"table2")?;
        list.sync()?;
        fs.hard_link(&dir.join("table"), &dir.join("table2"))?;
        fs.rename(&dir.join("lists/list.lock"), &dir.join("lists/list"))?;
        fs.sync_dir(&dir.join("lists"))
    };
    lose_power_everywhere(start().path(), Disk::Unordered, workload, |dir, _| {
        if let Ok(name) = std::fs::read_to_string(dir.join("lists/list")) {
            assert!(dir.join(name).exists(), "the name leads nowhere");
        }
    });
}

#[test]
fn appended_content_is_kept_whole_or_in_part_but_what_was_synced_stays() {
    let seen = Cell::new(0);
    let workload = |fs: &Fs, dir: &Path| {
        let mut file = fs.append(&dir.join("list"), 0o666)?;
        file.write_all(b"+1")?;
        file.sync()?;
        file.write_all(b"+2")
    };
    lose_power_everywhere(start().path(), Disk::Unordered, workload, |dir, crash| {
        let content = std::fs::read(dir.join("list")).unwrap();
        let known: [&[u8]; 7] = [b"old", b"old+", b"old+1", b"old\0\0", b"old+1+", b"old+1\0\0", b"old+1+2"];
        let place = known.iter().position(|known| *known == content).expect("no other content");
        seen.set(seen.get() | 1 << place);
        assert!(!crash.claimed || content.starts_with(b"old+1"));
    });
    assert_eq!(seen.get(), (1 << 7) - 1);
}
