use super::{FilesReader, target_of};
use crate::{name_cache::Known, stats::count};
use bstr::{BStr, BString, ByteSlice};

impl FilesReader {
    /// Counts as changed the refs that were created in a folder or removed from it since the folder was last listed.
    /// `before` and `now` are the two lists, sorted. A removal is counted only if the loose value of the ref is cached
    /// and packed-refs has another value or none. A change that a look-up of the ref has already found is not counted
    /// again. Nothing is counted for the repository's own folder.
    pub(super) fn notice(&self, folder: &BStr, before: &[BString], now: &[BString]) {
        // The repository's own folder has other files too.
        if folder.is_empty() {
            return;
        }
        debug_assert!(before.is_sorted() && now.is_sorted(), "the entries of '{folder}' are sorted");
        let name_of = |entry: &BString| BString::from([folder.as_bytes(), entry].concat());
        for entry in before.iter().filter(|entry| now.binary_search(entry).is_err()) {
            self.notice_removed(name_of(entry).as_bstr());
        }
        for entry in now.iter().filter(|entry| before.binary_search(entry).is_err()) {
            self.notice_added(name_of(entry).as_bstr());
        }
    }

    /// Records that a folder is gone, and counts its refs as removed; [`Self::notice`] says which of them are counted.
    pub(super) fn notice_gone(&self, folder: &BStr) {
        let before = self.folders().put_missing(folder);
        if let Some(before) = before {
            self.notice(folder, &before, &[]);
        }
    }

    fn notice_removed(&self, name: &BStr) {
        if name.ends_with(b"/") {
            return self.notice_gone(name);
        }
        let moment = self.moment();
        let Some(known) = self.memory.name_cache.get(self.knowledge.number, name).filter(|known| known.loose.is_some())
        else {
            return;
        };
        // The list that lacks the name may be the older of two, stored late by its thread, so the loose file is read
        // again. If there is none, packed-refs decides whether the ref has changed. An error is left to queries that
        // look up the ref.
        if let Ok(None) = self.get_loose(name, Some(&known), moment)
            && let Ok(file) = self.packed()
        {
            let _counted = self.get_packed(&file, name, Some(&known), moment);
        }
    }

    fn notice_added(&self, name: &BStr) {
        if name.ends_with(b"/") {
            // The folder is recorded as empty, if there is room, so that whatever is found in it later counts as
            // created.
            self.folders().put_missing(name);
            return;
        }
        let moment = self.moment();
        let before = self.memory.name_cache.get(self.knowledge.number, name);
        let Ok(Some((loose, is_new))) = self.loose(name, before.as_ref().and_then(|known| known.loose.as_ref())) else {
            return;
        };
        if is_new {
            if before.is_none_or(|before| target_of(&before.answer()) != Some(&loose.target)) {
                count(&self.knowledge.changes, 1);
            }
            self.remember(name, Known { loose: Some(loose), ..moment.known(None, None) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TrustSettings, ViewSettings, Views, ViewsSettings, opened::Reader, view::tests::opened_of};
    use refdb_testkit::{RefFormat, Repo};
    use refdb_types::HashKind;
    use std::time::Duration;

    #[test]
    fn a_list_that_is_older_than_the_one_before_it_makes_nobody_believe_that_its_missing_refs_are_gone() {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commits(1)[0];
        let trust = TrustSettings { believe: Some(Duration::from_secs(3600)), ..TrustSettings::default() };
        let settings = ViewSettings { trust, ..ViewSettings::default() };
        let view = Views::new(&ViewsSettings::default()).open(repo.git_dir(), &settings).expect("it is a repository");
        repo.git(["update-ref", "refs/heads/x", &id.to_string()]);
        let found =
            || view.get(b"refs/heads/x".as_bstr()).expect("the view answers").and_then(|found| found.target.id());
        assert_eq!(found(), Some(id));
        let version = view.version();
        let opened = opened_of(&view);
        let Reader::Files(reader) = &opened.reader else { unreachable!("its refs are files") };
        // Another thread may have listed the folder before the ref was created, and store its list only now.
        reader.notice(b"refs/heads/".as_bstr(), &["x".into()], &[]);
        assert_eq!((found(), view.version()), (Some(id), version));
    }
}
