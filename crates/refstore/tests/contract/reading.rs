use crate::common::{everywhere, rest};
use refdb::TargetView;

#[test]
fn what_git_writes_and_packs_we_read() {
    everywhere(|subject| {
        let ids = subject.commits(3);
        let names = subject.repo.fill(1500, &ids);
        let tag = subject.tag(ids[1], "v1");
        subject.repo.create_refs([("refs/tags/v1", tag), ("refs/bisect/bad", ids[0]), ("refs/heads/main", ids[2])]);
        subject.repo.git(["update-ref", "-d", "refs/heads/load/000/000007"]);
        let git: Vec<_> = subject.git_lists();
        let ours = |subject: &crate::common::Subject, root: bool| {
            let snapshot = subject.backend.snapshot().unwrap();
            let mut cursor = snapshot.cursor(root).unwrap();
            rest(&mut *cursor)
        };
        assert_eq!(ours(subject, true), git);
        assert_eq!(ours(subject, false), git[1..]);
        assert_eq!(git.len(), names.len() + 3);
        subject.repo.git(["pack-refs", "--all"]);
        assert_eq!(ours(subject, true), git);
        let snapshot = subject.backend.snapshot().unwrap();
        let mut pointing = Vec::new();
        snapshot
            .pointing_at(&ids[1], &mut |view| {
                assert!(matches!(view.target, TargetView::Direct(_)));
                pointing.push(view.name.to_string());
                Ok(())
            })
            .unwrap();
        let expected = subject.repo.git(["for-each-ref", "--format=%(refname)", &format!("--points-at={}", ids[1])]);
        assert_eq!(pointing, expected.lines().collect::<Vec<_>>());
    });
}

#[test]
fn a_cursor_can_be_put_anywhere() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.repo.fill(300, &ids);
        let snapshot = subject.backend.snapshot().unwrap();
        let mut cursor = snapshot.cursor(true).unwrap();
        for (to, next) in [
            ("refs/heads/load/000/000250", Some("refs/heads/load/000/000250")),
            ("refs/heads/load/000/000010x", Some("refs/heads/load/000/000011")),
            ("refs/heads/load/000/000012", Some("refs/heads/load/000/000012")),
            ("refs/heads/m", None),
            ("", Some("refs/heads/load/000/000000")),
        ] {
            cursor.seek(to.into()).unwrap();
            let found = cursor.next().unwrap().map(|view| view.name.to_string());
            assert_eq!(found.filter(|name| name != "HEAD").as_deref(), next.filter(|_| !to.is_empty()), "{to:?}");
        }
    });
}
