use super::surroundings;
use crate::{RefFormat, Repo, Rng};
use bstr::BString;
use refdb_types::{HashKind, ObjectId};

/// The number of odd objects.
const ODD: usize = 90;

/// The objects that plans use, in a repository of their own.
#[derive(Debug)]
pub(super) struct Objects {
    repo: Repo,
    pub(super) commits: Vec<BString>,
    /// Tags, of which one is signed and one has no tagger, a tree and a blob.
    pub(super) others: Vec<BString>,
    /// Commits and tags as a tool other than git may write them.
    pub(super) odd: Vec<BString>,
    /// A tag that points to a commit but calls it a blob.
    pub(super) lie: BString,
    /// The id of an object that does not exist.
    pub(super) missing: BString,
    pub(super) zero: BString,
}

impl Objects {
    pub(super) fn new(hash: HashKind) -> Self {
        let repo = Repo::bare(RefFormat::Files, hash);
        let mut commits = repo.commits(6);
        let tree = repo.rev_parse(&format!("{}^{{tree}}", commits[0]));
        let blob = repo.blob("text\n");
        repo.git_with_input(["mktree"], format!("100644 blob {blob}\tfile\n"));
        let commit = |parents: &[ObjectId], rest: &str| {
            let parents: String = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
            write(&repo, "commit", format!("tree {tree}\n{parents}{rest}"))
        };
        let people = "author A U Thor <author@example.com> 1690000000 +0530\n\
            committer C O Mitter <committer@example.com> 1710000000 -0800\n";
        let side = commit(&[commits[2]], &format!("{people}\nOn two\nlines, as a subject\n\nAnd a body.\n\n-- \nme\n"));
        let merge = commit(&[commits[4], side], &format!("{people}encoding UTF-8\n\nMerge: \u{fc}nusual -- (side)\n"));
        let mute = commit(&[merge], &format!("{people}\n"));
        let odd = commit(
            &[commits[0]],
            "author O <o@x> 0 +0000\ncommitter  x  <a b@c> 99999999999 +9999\n\n\n\n  spaced subject  \
             \n\nCRLF\r\n\r\nbody without an end",
        );
        let nobody = commit(&[], "author Nobody <n@example.com>\ncommitter No Date <n@example.com>\n\nsubject\n");
        commits.extend([side, merge, mute, odd, nobody]);
        let tag = repo.tag_object(commits[0], "v1");
        let nested = repo.tag_object(tag, "v2");
        let lie = repo.git(["cat-file", "tag", &tag.to_string()]).replace("type commit", "type blob") + "\n";
        let signed = format!(
            "object {}\ntype commit\ntag signed\ntagger T <t@example.com> 1600000000 +0200\n\nsubject\n\nbody\n\
             -----BEGIN PGP SIGNATURE-----\n\nnone\n-----END PGP SIGNATURE-----\n",
            commits[3]
        );
        let unmanned = format!("object {}\ntype commit\ntag unmanned\n\nno tagger\n", commits[1]);
        let others = [
            tag,
            nested,
            repo.tag_object(blob, "of-a-blob"),
            write(&repo, "tag", &signed),
            write(&repo, "tag", &unmanned),
            tree,
            blob,
        ];
        let lie = write(&repo, "tag", &lie);
        let rng = &mut Rng::new(1);
        let odd: Vec<ObjectId> = (0..ODD)
            .map(|turn| {
                let parent = commits[rng.below(6)];
                match turn % 3 {
                    0 => write(&repo, "tag", surroundings::tag(rng, parent)),
                    _ => write(&repo, "commit", surroundings::commit(rng, tree, parent)),
                }
            })
            .collect();
        repo.git(["repack", "-adkq"]);
        let hex = |id: &ObjectId| BString::from(id.to_string());
        Objects {
            commits: commits.iter().map(hex).collect(),
            others: others.iter().map(hex).collect(),
            odd: odd.iter().map(hex).collect(),
            lie: hex(&lie),
            missing: "1234567890".repeat(hash.len_hex() / 10 + 1)[..hash.len_hex()].into(),
            zero: "0".repeat(hash.len_hex()).into(),
            repo,
        }
    }

    /// Returns the folder that contains the objects.
    pub(super) fn folder(&self) -> std::path::PathBuf {
        self.repo.git_dir().join("objects")
    }
}

fn write(repo: &Repo, kind: &str, content: impl AsRef<[u8]>) -> ObjectId {
    let hex = repo.git_with_input(["hash-object", "-w", "--literally", "-t", kind, "--stdin"], content);
    ObjectId::from_hex(repo.hash(), hex.as_bytes()).expect("git prints an object id")
}
