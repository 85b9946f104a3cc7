//! When packed-refs falsely claims to be sorted, refdb's lists of all refs have those that git lists without the claim.

use refdb_testkit::{Git, RefFormat, Repo, Rng};
use refdb_types::HashKind;
use std::{collections::BTreeSet, fs, path::Path};

/// Number of random files.
const FILES: u64 = 24;

fn lines(program: &Path, repo: &Repo, words: &[&str]) -> (Vec<String>, String) {
    let output = repo.try_run(program, words, "");
    assert!(output.status.success(), "{program:?} {words:?}: {output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout).lines().map(str::to_owned).collect(), text(output.stderr))
}

#[test]
fn a_wrong_order_hides_nothing_that_git_has_without_the_promise() {
    let refdb = Path::new(env!("CARGO_BIN_EXE_refdb"));
    let git = Git::find().program();
    for seed in 0..FILES {
        let rng = &mut Rng::new(seed);
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(3);
        let folders = ["refs/heads/", "refs/tags/", "refs/changes/01/1/", "refs/heads/a/"];
        let count = *rng.pick(&[5, 40, 1500]);
        let names: BTreeSet<String> =
            (0..count).map(|_| format!("{}{}", rng.pick(&folders), rng.below(10 * count))).collect();
        let mut text: Vec<String> = names.iter().map(|name| format!("{} {name}\n", rng.pick(&ids))).collect();
        for _ in 0..1 + rng.below(4) {
            let line = text.remove(rng.below(text.len()));
            text.insert(rng.below(text.len() + 1), line);
        }
        let is_sorted = text.is_sorted_by(|a, b| a.split(' ').nth(1) < b.split(' ').nth(1));
        let packed = repo.git_dir().join("packed-refs");
        let write =
            |promises: &str| fs::write(&packed, format!("# pack-refs with: {promises}\n{}", text.concat())).unwrap();
        for turn in 0..rng.below(4) {
            repo.git(["update-ref", &format!("refs/heads/loose/{turn}"), &ids[0].to_string()]);
        }
        for words in
            [&["for-each-ref"][..], &["show-ref"], &["for-each-ref", "refs/heads/"], &["for-each-ref", "refs/tags"]]
        {
            write("peeled fully-peeled ");
            let whole: BTreeSet<String> = lines(git, &repo, words).0.into_iter().collect();
            write("peeled fully-peeled sorted ");
            let (ours, warned) = lines(refdb, &repo, words);
            assert_eq!(
                ours.iter().collect::<BTreeSet<_>>().len(),
                ours.len(),
                "seed {seed}: {words:?} has a ref twice"
            );
            let ours: BTreeSet<String> = ours.into_iter().collect();
            // A command that lists some refs reads no others, so it may not notice the wrong order and may miss refs.
            let reads_all = words.len() == 1;
            assert!(ours == whole || !reads_all && ours.is_subset(&whole), "seed {seed}: {words:?}");
            assert!(!reads_all || warned.contains("is out of order") != is_sorted, "seed {seed}: {words:?} {warned}");
        }
        write("peeled fully-peeled ");
        let whole = lines(git, &repo, &["for-each-ref"]).0;
        write("peeled fully-peeled sorted ");
        lines(refdb, &repo, &["pack-refs", "--all"]);
        assert_eq!(lines(git, &repo, &["for-each-ref"]).0, whole, "seed {seed}: packed again, in order");
    }
}

#[test]
fn a_damaged_line_is_told_of_in_gits_words() {
    let refdb = Path::new(env!("CARGO_BIN_EXE_refdb"));
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit().to_string();
    let said = |program: &Path| {
        let output = repo.try_run(program, ["for-each-ref"], "");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let short = &id[1..];
    let damaged = [
        format!("{short} refs/heads/x\n"),
        format!("g{short} refs/heads/x\n"),
        format!("{id}\n"),
        format!("{id}refs/heads/x\n"),
        "\n".to_owned(),
        "rubbish\n".to_owned(),
        format!("^{short}\n"),
        format!("{id} refs/heads/x"),
        format!("# {id}\n"),
    ];
    for header in ["", "# pack-refs with: peeled fully-peeled \n", "# pack-refs with: peeled fully-peeled sorted \n"] {
        for line in &damaged {
            fs::write(repo.git_dir().join("packed-refs"), format!("{header}{id} refs/heads/a\n{line}")).unwrap();
            let (git, ours) = (said(Git::find().program()), said(refdb));
            assert_eq!(git.0, Some(128), "{header}{line:?}: {git:?}");
            assert_eq!(ours, git, "{header}{line:?}");
        }
    }
}
