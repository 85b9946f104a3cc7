//! Answers of a server whose file is lost on a network file system while it is read. A planted fault loses it once.

use crate::support::{Options, Request, export};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

/// Creates an exported repository whose refs are in one large file.
fn repository(format: RefFormat) -> Repo {
    let repo = Repo::bare(format, HashKind::Sha1);
    let commit = repo.commits(1)[0];
    repo.create_refs((0..20_000).map(|at| (format!("refs/heads/{at:06}"), commit)));
    repo.git(["pack-refs", "--all"]);
    export(repo.git_dir());
    repo
}

#[test]
fn an_advertisement_begins_again_where_none_of_it_was_sent() {
    for format in RefFormat::ALL {
        let repo = repository(format);
        let advertisement = |fault: &str| {
            let server = Options::root(repo.scratch()).variable("REFDB_PLANTED_FAULT", fault).start();
            let answer = server.ask(&Request::get("/repo/info/refs?service=git-upload-pack"));
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
            answer.body
        };
        let (lost, plain) = (advertisement("vfs-stale-early"), advertisement(""));
        assert!(lost == plain && plain.len() > 1 << 20, "{} bytes instead of {}", lost.len(), plain.len());
    }
}
