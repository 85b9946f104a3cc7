//! Reflog messages and committers that are too long for a block of a reftable.

use crate::common::{Twins, refdb};
use refdb_testkit::{RefFormat, Repo, Rng};
use refdb_types::HashKind;

fn set_up(repo: &Repo) {
    let commits = repo.commits(2);
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/other", commits[0])]);
}

#[test]
fn a_reflog_message_is_cut_where_git_cuts_it() {
    for (block_size, half) in [("0", 2048), ("201", 100), ("65536", 32_768)] {
        let twins = Twins::new(RefFormat::Reftable, &set_up);
        let setting = format!("reftable.blockSize={block_size}");
        for len in [half - 1, half, 3 * half] {
            let text = "x".repeat(len);
            for (message, target) in [(format!("{text} éé"), "main"), (format!("{text}é"), "main~1")] {
                let words = ["-c", &setting, "update-ref", "--create-reflog", "-m", &message, "refs/heads/new", target];
                twins.same(&words, b"");
            }
        }
    }
}

#[test]
fn git_goes_on_writing_after_refdb_wrote_the_longest_messages() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    set_up(&repo);
    let message = "m".repeat(20_000);
    for at in 0..4 {
        let name = format!("refs/heads/new{at}");
        let written = refdb(repo.dir(), &["update-ref", "--create-reflog", "-m", &message, &name, "main"], b"");
        assert!(written.status.success(), "{written:?}");
        repo.git(["update-ref", &format!("refs/heads/git{at}"), "main"]);
    }
    repo.git(["pack-refs"]);
    assert_eq!(repo.git(["log", "-g", "--format=%gs", "refs/heads/new0"]).trim_end().len(), 2048);
    repo.verify();
}

/// Returns random ASCII characters, which deflate can hardly compress.
fn noise(len: usize, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| char::from_u32(0x21 + rng.below(0x5e) as u32).unwrap()).collect()
}

#[test]
fn git_reads_every_reflog_whatever_its_blocks_and_messages_are() {
    let cases =
        [(256, 3, 10), (512, 10, 200), (1024, 4, 200), (2048, 2, 900), (4096, 3, 1500), (4096, 8, 700), (4096, 40, 90)];
    for (block_size, refs, len) in cases {
        for (hash, noisy) in [(HashKind::Sha1, true), (HashKind::Sha1, false), (HashKind::Sha256, true)] {
            let repo = Repo::with_worktree(RefFormat::Reftable, hash);
            repo.git(["config", "reftable.blockSize", &block_size.to_string()]);
            set_up(&repo);
            let message = |at| if noisy { noise(len, at) } else { "m".repeat(len) };
            let kept = |at| message(at)[..len.min(block_size / 2)].to_owned();
            let check = |step: &str| {
                for at in 0..refs {
                    let name = format!("refs/heads/new{at}");
                    let said = repo.git(["log", "-g", "--format=%gs", &name]);
                    assert_eq!(said.trim_end(), kept(at), "{step}: {block_size} {refs} {len} {hash:?} {noisy}");
                }
            };
            for at in 0..refs {
                let name = format!("refs/heads/new{at}");
                let words = ["update-ref", "--create-reflog", "-m", &message(at), &name, "main"];
                let written = refdb(repo.dir(), &words, b"");
                assert!(written.status.success(), "{written:?}");
            }
            check("written one by one");
            assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
            check("compacted");
            repo.git(["update-ref", "refs/heads/gits", "main"]);
            repo.git(["pack-refs"]);
            check("compacted by git");
        }
    }
}

/// Returns random Chinese characters of three bytes each. Deflate's compression ratio for them is not that of ASCII.
fn far_noise(len: usize, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    (0..len / 3).map(|_| char::from_u32(0x4e00 + rng.below(0x5000) as u32).unwrap()).collect()
}

#[test]
fn git_reads_and_rewrites_every_reflog_that_a_migration_brought() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        for (at, len) in (3720..4020).step_by(15).enumerate() {
            let repo = Repo::with_worktree(RefFormat::Files, hash);
            set_up(&repo);
            for setting in ["gc.reflogExpire", "gc.reflogExpireUnreachable"] {
                repo.git(["config", setting, "never"]);
            }
            let message = if at % 2 == 0 { noise(len, 1) } else { far_noise(len, 1) };
            let [old, new] = ["other", "main"].map(|name| repo.rev_parse(name).to_string());
            repo.git(["reflog", "write", "refs/heads/main", &old, &new, &message]);
            let migrated = refdb(repo.dir(), &["refs", "migrate", "--ref-format=reftable"], b"");
            assert!(migrated.status.success(), "{migrated:?}");
            let shown = || repo.git(["log", "-g", "-1", "--format=%gs", "refs/heads/main"]);
            let kept = shown();
            assert!(message.as_bytes().starts_with(&kept.trim_end().as_bytes()[..2046]), "{len}: {kept}");
            for words in [
                &["reflog", "expire", "--all", "--expire=never"][..],
                &["update-ref", "refs/heads/new", "main"],
                &["pack-refs", "--all"],
                &["gc", "--quiet"],
            ] {
                let output = repo.try_git(words, "");
                assert!(output.status.success(), "{hash:?} {len}: {words:?} {output:?}");
            }
            assert_eq!(shown(), kept, "{len}");
            repo.verify();
        }
    }
}

/// Rewrites the header and footer of the repository's only table so that they state this block size.
pub(crate) fn claim_block_size(repo: &Repo, block_size: u32) {
    const HEADER: usize = 24;
    let folder = repo.git_dir().join("reftable");
    let list = std::fs::read_to_string(folder.join("tables.list")).unwrap();
    let table = folder.join(list.trim_end());
    let mut bytes = std::fs::read(&table).unwrap();
    let footer = bytes.len() - (HEADER + 5 * 8 + 4);
    for at in [0, footer] {
        bytes[at + 5..at + 8].copy_from_slice(&block_size.to_be_bytes()[1..]);
    }
    let crc_at = bytes.len() - 4;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[footer..crc_at]);
    bytes[crc_at..].copy_from_slice(&crc.sum().to_be_bytes());
    std::fs::write(&table, bytes).unwrap();
}

#[test]
fn refdb_repairs_reflogs_that_git_cannot_read_and_stat_names_them() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    set_up(&repo);
    let words = ["update-ref", "--create-reflog", "-m", "why", "refs/heads/new", "main"];
    assert!(refdb(repo.dir(), &words, b"").status.success());
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    // Makes the log blocks longer than the stated block size, as an older refdb could leave them.
    claim_block_size(&repo, 200);
    assert!(!repo.try_git(["reflog", "list"], "").status.success(), "there is nothing to repair");
    let text = String::from_utf8(refdb(repo.dir(), &["stat"], b"").stdout).unwrap();
    assert!(text.contains("git cannot read the reflogs in it, from the block at byte "), "{text}");
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    assert_eq!(repo.git(["log", "-g", "--format=%gs", "refs/heads/new"]).trim_end(), "why");
    let text = String::from_utf8(refdb(repo.dir(), &["stat"], b"").stdout).unwrap();
    assert!(!text.contains("cannot read"), "{text}");
    repo.verify();
}

#[test]
fn a_committer_too_long_for_any_block_is_refused_as_git_does() {
    for variable in ["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        for (words, input) in [
            (&["update-ref", "-m", "x", "refs/heads/new", "main"][..], ""),
            (&["update-ref", "--stdin"], "create refs/heads/new refs/heads/main\n"),
            (&["update-ref", "--stdin", "--batch-updates"], "create refs/heads/new refs/heads/main\n"),
            (&["symbolic-ref", "-m", "x", "HEAD", "refs/heads/other"], ""),
            (&["-c", "core.logAllRefUpdates=false", "update-ref", "refs/tags/new", "main"], ""),
        ] {
            let mut twins = Twins::new(RefFormat::Reftable, &set_up);
            twins.environment.push((variable, "n".repeat(4200)));
            twins.same(words, input.as_bytes());
        }
    }
}

#[test]
fn refdb_repairs_a_stack_that_git_cannot_compact_and_stat_names_what_is_wrong() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    set_up(&repo);
    let message = &*"m".repeat(9000);
    let large = ["-c", "reftable.blockSize=65536"];
    for table_count in [1, 2] {
        // Leaves a log record that is too large for git's default block size, as an older refdb could.
        let name = &*format!("refs/heads/new{table_count}");
        repo.git([&large[..], &["update-ref", "--create-reflog", "-m", message, name, "main"]].concat());
        repo.git([&large[..], &["pack-refs"]].concat());
        if table_count > 1 {
            repo.git(["update-ref", "refs/heads/small", "main"]);
            let packed = repo.try_git(["pack-refs"], "");
            assert!(!packed.status.success(), "git can compact it: there is nothing to repair");
        }
        let text = String::from_utf8(refdb(repo.dir(), &["stat"], b"").stdout).unwrap();
        let expected = format!(
            "log records too large for git, which cannot write any more: 1, the first of {name}; `refdb pack-refs` cuts \
             them"
        );
        assert!(text.contains(&expected), "{text}");
        assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
        let text = String::from_utf8(refdb(repo.dir(), &["stat", "--json"], b"").stdout).unwrap();
        assert!(!text.contains("too_large"), "{text}");
        repo.git(["update-ref", "refs/heads/after", "main"]);
        repo.git(["pack-refs"]);
        assert_eq!(repo.git(["log", "-g", "--format=%gs", name]).trim_end(), &message[..2048]);
    }
}

#[test]
fn stat_describes_tables_that_the_configured_block_size_does_not_let_anybody_merge() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    set_up(&repo);
    repo.git(["config", "reftable.blockSize", "65536"]);
    repo.git(["update-ref", &format!("refs/heads{}", "/long".repeat(600)), "main"]);
    repo.git(["config", "reftable.blockSize", "1024"]);
    let text = refdb(repo.dir(), &["stat"], b"");
    assert!(text.status.success(), "{text:?}");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("tables: ") && text.contains("compaction would fail: the record of"), "{text}");
    let json = refdb(repo.dir(), &["stat", "--json"], b"");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json.to_string().contains("\"incompatible\"") && !json.to_string().contains("compacted_"), "{json}");
}
