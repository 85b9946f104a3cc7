//! The layout of tables, pinned as text so that a change of the layout shows in the diff.
//!
//! `REFDB_BLESS=1 cargo test -p reftable --test golden` writes the texts anew, and the seeds of the fuzz targets
//! `reftable_table` and `reftable_block`.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use common::*;
use reftable::{HashKind, WriteOptions};
use std::path::{Path, PathBuf};

struct Golden {
    name: &'static str,
    options: WriteOptions,
    refs: Vec<OwnRef>,
    logs: Vec<OwnLog>,
}

/// Returns the tables. Logs take only one small block, because larger ones are deflated to a size that depends on the
/// library.
fn tables() -> Vec<Golden> {
    let of = |name, hash, block_size, aligned, ref_count, log_count| {
        let options = WriteOptions::new(hash).block_size(block_size).aligned(aligned).restart_interval(4);
        Golden { name, options, refs: refs(hash, ref_count), logs: logs(hash, log_count) }
    };
    vec![
        of("empty", HashKind::Sha1, 4096, true, 0, 0),
        of("one-ref", HashKind::Sha1, 4096, true, 1, 0),
        of("one-block", HashKind::Sha1, 4096, true, 12, 0),
        of("one-block-sha256", HashKind::Sha256, 4096, true, 12, 3),
        of("refs-and-logs", HashKind::Sha1, 4096, true, 5, 5),
        of("logs-only", HashKind::Sha1, 4096, true, 0, 5),
        of("indexed", HashKind::Sha1, 256, true, 40, 0),
        of("indexed-unaligned", HashKind::Sha1, 256, false, 12, 2),
    ]
}

fn blessing() -> bool {
    std::env::var_os("REFDB_BLESS").is_some()
}

fn folder(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

#[test]
fn tables_look_as_pinned() {
    for golden in tables() {
        let (bytes, _) = write(golden.options, &golden.refs, &golden.logs);
        let mut picture = Vec::new();
        reftable::dump(&open(&bytes).unwrap(), &mut picture).unwrap();
        let picture = String::from_utf8(picture).unwrap();
        let path = folder("tests/golden").join(golden.name).with_extension("txt");
        if blessing() {
            std::fs::write(&path, &picture).unwrap();
        }
        let pinned = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(picture == pinned, "'{}' is now:\n{picture}", path.display());
    }
}

#[test]
fn every_table_has_a_seed_for_the_fuzz_targets() {
    for golden in tables() {
        let (bytes, _) = write(golden.options, &golden.refs, &golden.logs);
        let header = if golden.options.hash == HashKind::Sha1 { 24 } else { 28 };
        let blocks = &bytes[header..bytes.len() - header - 44];
        // Sixteen bits for the position of each section, as `exercise::reftable_blocks` expects them.
        let footer = bytes.len() - 44;
        let position = |at: usize| u64::from_be_bytes(bytes[footer + 8 * at..][..8].try_into().unwrap());
        let size = (golden.options.block_size / 256).trailing_zeros() as u8;
        let choices = u8::from(header == 28) | u8::from(!golden.options.aligned) << 1 | size << 2;
        let mut seed = vec![choices, position(1) as u8 & 31];
        for value in [position(0), position(1) >> 5, position(2), position(3), position(4)] {
            seed.extend_from_slice(&(value as u16).to_be_bytes());
        }
        seed.extend_from_slice(blocks);
        for (target, seed) in [("reftable_table", &bytes), ("reftable_block", &seed)] {
            let path = folder("../../fuzz/seeds").join(target).join(golden.name);
            if blessing() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, seed).unwrap();
            }
            assert!(path.is_file(), "'{}' is missing", path.display());
        }
    }
}
