//! `refdb cache` on files of a process that has stopped, and of one that is running.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb_kvcache::{Cache, Durability, Key, Options, version_dir};
use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn refdb(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refdb"));
    command.arg("cache").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The write fails if the program refuses its arguments and reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn fill(dir: &Path, key: Option<Key>) -> Cache {
    let mut options = Options::new(4 << 20);
    options.key = key;
    let cache = Cache::open(dir, options).unwrap();
    for i in 0..1000u32 {
        cache.put(format!("key {i}").as_bytes(), &vec![1; i as usize]).unwrap();
    }
    cache.flush(Durability::Written).unwrap();
    cache
}

#[test]
fn a_cache_in_use_is_counted_and_verified_but_not_compacted() {
    let root = tempfile::tempdir().unwrap();
    let dir = version_dir(root.path(), "diff", 2);
    let folder = dir.to_str().unwrap();
    let cache = fill(&dir, None);
    let all = text(&refdb(&["stat", root.path().to_str().unwrap()], b""));
    assert!(all.starts_with(&format!("{folder}: 1000 entries, ")), "{all}");
    assert_eq!(text(&refdb(&["verify", folder], b"")), "1000 entries are whole, 0 are harmed and would be misses\n");
    let top = text(&refdb(&["top", "--count=2", folder], b""));
    let keys: Vec<_> = top.lines().map(|line| line.rsplit(": ").next().unwrap()).collect();
    assert_eq!(keys.len(), 2, "{top}");
    assert!(keys.iter().all(|key| key.starts_with("key 99")), "{top}");
    let busy = refdb(&["compact", folder], b"");
    assert!(!busy.status.success() && String::from_utf8_lossy(&busy.stderr).contains("in use by another process"));
    for i in 0..500u32 {
        cache.remove(format!("key {i}").as_bytes()).unwrap();
    }
    cache.close().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&refdb(&["stat", "--json", folder], b"").stdout).unwrap();
    assert_eq!((json[0]["entries"].as_u64(), json[0]["counted"]["puts"].as_u64()), (Some(500), Some(1000)));
    let freed = text(&refdb(&["compact", folder], b""));
    let bytes: u64 = freed.split(' ').next().unwrap().parse().unwrap();
    let after: serde_json::Value = serde_json::from_slice(&refdb(&["stat", "--json", folder], b"").stdout).unwrap();
    let bytes_of = |stat: &serde_json::Value, what: &str| stat[0][what].as_u64().unwrap();
    // How much is left to free depends on what the cache has compacted by itself; the resulting size does not.
    assert!(bytes > 0, "{freed}");
    assert!(bytes_of(&after, "disk_bytes") < bytes_of(&after, "live_bytes") / 10 * 12, "{json} {after}");
    assert_eq!(text(&refdb(&["verify", folder], b"")), "500 entries are whole, 0 are harmed and would be misses\n");
}

/// The files of a cache's records, oldest first.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    // Number 0 is the saved index.
    let is_segment =
        |path: &PathBuf| path.extension().is_some_and(|ext| ext == "seg") && !path.ends_with("0000000000000000.seg");
    let mut segments: Vec<_> = files.filter(is_segment).collect();
    segments.sort();
    segments
}

#[test]
fn a_harmed_entry_is_reported_with_exit_code_1() {
    let root = tempfile::tempdir().unwrap();
    fill(root.path(), None).close().unwrap();
    let segment = &segments(root.path())[0];
    let mut bytes = std::fs::read(segment).unwrap();
    bytes[10_000] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let found = refdb(&["verify", root.path().to_str().unwrap()], b"");
    assert_eq!(found.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&found.stdout), "999 entries are whole, 1 are harmed and would be misses\n");
    let exported = refdb(&["export", root.path().to_str().unwrap()], b"");
    let told = "999 entries exported\n1 entries left out, because they are harmed or cannot be read\n";
    assert_eq!((exported.status.code(), String::from_utf8_lossy(&exported.stderr).as_ref()), (Some(0), told));
}

/// Previously, the export ended with an error when the pipe was full.
#[test]
fn an_export_waits_for_the_reader_of_a_pipe_that_does_not_block() {
    let root = tempfile::tempdir().unwrap();
    fill(root.path(), None).close().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_refdb"));
    let mut child = command.args(["cache", "export"]).arg(root.path()).stdout(writer).spawn().unwrap();
    // The command still holds the end for writing.
    drop(command);
    // The pipe is full after that, or if the machine is slow, this run shows nothing.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut export = Vec::new();
    reader.read_to_end(&mut export).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(export, refdb(&["export", root.path().to_str().unwrap()], b"").stdout);
}

#[test]
fn a_cache_that_harm_has_emptied_is_no_whole_one() {
    let root = tempfile::tempdir().unwrap();
    fill(root.path(), None).close().unwrap();
    let segments = segments(root.path());
    let mut bytes = std::fs::read(&segments[1]).unwrap();
    bytes[9] ^= 1;
    std::fs::write(&segments[1], bytes).unwrap();
    let folder = root.path().to_str().unwrap();
    for (arguments, code) in [(vec!["verify", folder], 1), (vec!["top", folder], 0), (vec!["compact", folder], 0)] {
        let found = refdb(&arguments, b"");
        assert_eq!(found.status.code(), Some(code), "{found:?}");
        let told = String::from_utf8_lossy(&found.stderr).into_owned();
        assert!(told.starts_with("warning: ") && told.contains("header of a segment is damaged"), "{told}");
    }
}

#[test]
fn entries_move_from_one_cache_to_another() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    fill(&from, None).close().unwrap();
    let export = refdb(&["export", from.to_str().unwrap()], b"");
    assert!(export.status.success());
    let needs_limit = refdb(&["import", to.to_str().unwrap()], &export.stdout);
    assert_eq!(needs_limit.status.code(), Some(129));
    assert!(refdb(&["import", "--limit=4194304", to.to_str().unwrap()], &export.stdout).status.success());
    let cache = Cache::open(&to, Options::new(4 << 20)).unwrap();
    assert_eq!(cache.stats().entries, 1000);
    assert_eq!(cache.get(b"key 77").unwrap().value, vec![1; 77]);
}

#[test]
fn the_keys_of_secret_caches_are_not_shown() {
    let root = tempfile::tempdir().unwrap();
    let sessions = version_dir(root.path(), "web_sessions", 0);
    fill(&sessions, None).close().unwrap();
    let encrypted = root.path().join("encrypted");
    fill(&encrypted, Some(Key::new([0xab; 32]))).close().unwrap();
    let key_file = root.path().join("key");
    std::fs::write(&key_file, format!("{}\n", "ab".repeat(32))).unwrap();
    let with_key = format!("--key-file={}", key_file.display());
    for (folder, options) in [(&sessions, vec![]), (&encrypted, vec![with_key.as_str()])] {
        let folder = folder.to_str().unwrap();
        let top = text(&refdb(&[&["top"], &options[..], &[folder]].concat(), b""));
        assert!(top.contains("(secret)") && !top.contains("key 99"), "{top}");
        let refused = refdb(&[&["export"], &options[..], &[folder]].concat(), b"");
        assert!(!refused.status.success() && refused.stdout.is_empty());
        let export = refdb(&[&["export", "--secrets"], &options[..], &[folder]].concat(), b"");
        assert!(export.status.success() && export.stdout.windows(6).any(|window| window == b"key 99"));
    }
    let folder = encrypted.to_str().unwrap();
    assert!(text(&refdb(&["stat", folder], b"")).contains("1000 entries"), "counting needs no key");
    assert!(text(&refdb(&["verify", folder], b"")).starts_with("1000 entries are whole"));
    for action in ["top", "compact"] {
        let refused = refdb(&[action, folder], b"");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("none of the given keys"), "{refused:?}");
    }
    assert_eq!(Cache::open_to_inspect(&encrypted).unwrap().stats().entries, 1000, "nothing was lost");
}

#[test]
fn the_keys_of_a_secret_cache_behind_a_symbolic_link_are_not_shown() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = root.path().join("large disk/sessions/v0");
    fill(&elsewhere, None).close().unwrap();
    std::os::unix::fs::symlink(elsewhere.parent().unwrap(), root.path().join("web_sessions")).unwrap();
    let folder = root.path().join("web_sessions/v0");
    let folder = folder.to_str().unwrap();
    let top = text(&refdb(&["top", folder], b""));
    assert!(top.contains("(secret)") && !top.contains("key 99"), "{top}");
    let refused = refdb(&["export", folder], b"");
    assert!(!refused.status.success() && refused.stdout.is_empty());
}

#[test]
fn a_cache_that_cannot_be_read_hides_no_other() {
    let root = tempfile::tempdir().unwrap();
    let dirs = ["accounts", "diff", "web_sessions"].map(|name| version_dir(root.path(), name, 1));
    for dir in &dirs {
        fill(dir, None).close().unwrap();
    }
    // Claims a format version of a newer program.
    let format = dirs[1].join("format");
    let mut bytes = std::fs::read(&format).unwrap();
    bytes[8] = 99;
    std::fs::write(&format, bytes).unwrap();
    let found = refdb(&["stat", root.path().to_str().unwrap()], b"");
    assert_eq!(found.status.code(), Some(1));
    let (shown, told) = (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    assert_eq!(shown.matches("1000 entries").count(), 2, "{shown}");
    assert!(told.starts_with("warning: ") && told.contains("diff"), "{told}");
    let alone = refdb(&["stat", dirs[1].to_str().unwrap()], b"");
    assert_eq!((alone.status.code(), alone.stdout.len()), (Some(128), 0));
}

/// Previously, a refused import left a cache without a key, so that an import with a key was refused afterwards.
#[test]
fn a_refused_import_leaves_no_cache_behind() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    fill(&from, None).close().unwrap();
    let export = refdb(&["export", from.to_str().unwrap()], b"").stdout;
    let key = root.path().join("key");
    std::fs::write(&key, "ab".repeat(32)).unwrap();
    let import = ["import", "--limit=4194304", to.to_str().unwrap()];
    assert!(!refdb(&import, b"no export").status.success());
    assert!(!to.exists());
    let key = format!("--key-file={}", key.display());
    text(&refdb(&[import[0], import[1], &key, import[2]], &export));
    // A cache that existed before the refused import stays.
    assert!(!refdb(&[import[0], import[1], &key, import[2]], b"no export").status.success());
    assert!(Cache::is_encrypted(&to).unwrap());
}

#[test]
fn root_writes_nothing_into_another_users_cache() {
    if refdb_vfs::effective_user() != 0 {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    fill(root.path(), None).close().unwrap();
    let export = refdb(&["export", root.path().to_str().unwrap()], b"").stdout;
    let files = || std::fs::read_dir(root.path()).unwrap().map(|file| file.unwrap().path());
    files().chain([root.path().to_owned()]).for_each(|path| std::os::unix::fs::chown(path, Some(1234), None).unwrap());
    let folder = root.path().to_str().unwrap();
    let new = format!("{folder}/new/v1");
    let import = |folder| vec!["import", "--limit=4194304", folder];
    for arguments in [vec!["compact", folder], import(folder), import(&new)] {
        let refused = refdb(&arguments, &export);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains("belongs to user 1234"), "{arguments:?}: {told}");
    }
    assert!(files().all(|path| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).unwrap()) == 1234));
    assert!(text(&refdb(&["verify", folder], b"")).starts_with("1000 entries are whole"), "to look is allowed");
}
