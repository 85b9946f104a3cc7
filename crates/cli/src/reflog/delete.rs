//! `refdb reflog delete`: see git-reflog(1).

use super::{
    judged::{self, DRY_RUN, REWRITE, Teller, UPDATE_REF, VERBOSE},
    logged_ref,
};
use crate::{
    Invocation,
    clock::Clock,
    failure::{FAILED, Failure, Result, message, say},
    options::{Command, Parser, Word},
    session::{Session, before_locks},
};
use bstr::{BStr, ByteSlice};
use refdb::{LogJudge, LoggedChange, PruneLogs, RefName, approximate};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog delete",
    about: "Delete single entries of reflogs",
    synopsis: &["[--rewrite] [--updateref]\n[--dry-run | -n] [--verbose] <ref>@{<specifier>}..."],
    options: &[DRY_RUN, REWRITE, UPDATE_REF, VERBOSE],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let (mut how, mut entries) = (PruneLogs::default(), Vec::new());
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(entry) => entries.push(entry),
            Word::Option(opt, setting) if judged::set(&mut how, opt.name, setting.is_on()) => {}
            Word::Option(opt, _) => opt.unread(),
        }
    }
    if entries.is_empty() {
        return Err(Failure::Error("no reflog specified to delete".into(), FAILED));
    }
    before_locks()?;
    let mut code = 0;
    for entry in entries {
        code = code.max(delete(&session, how, entry)?);
    }
    Ok(code)
}

fn delete(session: &Session, how: PruneLogs, given: &BStr) -> Result<u8> {
    let Some((name, specifier)) = given.split_once_str("@{") else {
        say("error: ", &message!["not a reflog: ", given]);
        return Ok(FAILED);
    };
    let Some(full) = logged_ref(session, name.as_bstr())? else {
        say("error: ", &message!["no reflog for '", given, "'"]);
        return Ok(FAILED);
    };
    let which = Which::of(session, specifier.as_bstr());
    let mut judge = OneEntry { which, teller: Teller::new(how.dry_run), left: 0 };
    if let Err(error) = session.store.prune_logs(&[full], how, &mut judge) {
        judge.teller.fail(error);
    }
    judge.teller.end()
}

/// The entry to delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    /// The entry with this number, where 0 is the newest.
    Number(usize),
    /// The newest entry that is older than this time, in seconds since 1970, if the times of the entries ascend; with
    /// 0, the newest of all.
    Before(u64),
}

impl Which {
    /// Parses what follows `@{`. Text that begins with a number and `}` is that number, whatever follows the `}`;
    /// everything else is a date.
    fn of(session: &Session, text: &BStr) -> Self {
        if let Some(number) = number(text) {
            return Which::Number(number);
        }
        let clock = Clock::of(session.store.environment());
        Which::Before(approximate(text, clock.now, &clock.zone).seconds)
    }
}

/// Returns the number before `}`, if there is one, as strtoul(3) reads it: blanks and a sign may precede it, -1 is the
/// largest number, and a text that begins with `}` counts as 0.
fn number(text: &BStr) -> Option<usize> {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let sign = text.get(blanks).filter(|byte| matches!(byte, b'+' | b'-'));
    let start = blanks + usize::from(sign.is_some());
    let digits = text[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = if digits == 0 { 0 } else { start + digits };
    if text.get(end) != Some(&b'}') {
        return None;
    }
    let add = |sum: usize, digit: &u8| sum.checked_mul(10)?.checked_add(usize::from(digit - b'0'));
    let number = text[start..][..digits].iter().try_fold(0, add);
    Some(match (number, sign) {
        (Some(number), Some(b'-')) => number.wrapping_neg(),
        (number, _) => number.unwrap_or(usize::MAX),
    })
}

/// Deletes one entry.
struct OneEntry {
    which: Which,
    teller: Teller,
    /// The number of entries that are left up to and including the one to delete. It is 0 from the beginning if no
    /// entry is to be deleted.
    left: usize,
}

impl LogJudge for OneEntry {
    fn begin(&mut self, _: &BStr, times: &mut dyn ExactSizeIterator<Item = u64>) -> refdb::Result<()> {
        self.left = match self.which {
            Which::Number(number) => times.len().saturating_sub(number),
            // In git, `never` is 0, which is no limit.
            Which::Before(0) => times.len(),
            Which::Before(time) => times.filter(|seconds| *seconds < time).count(),
        };
        Ok(())
    }

    fn goes(&mut self, _: &LoggedChange<'_>) -> refdb::Result<bool> {
        self.left = self.left.wrapping_sub(1);
        Ok(self.left == 0)
    }

    fn told(&mut self, entry: &LoggedChange<'_>, goes: bool) {
        self.teller.tell(entry, goes);
    }

    fn failed(&mut self, _: &RefName, error: refdb::Error) {
        self.teller.fail(error);
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_may_have_blanks_and_a_sign_as_in_git() {
        for (text, expected) in [
            ("1}", Some(1)),
            ("+1}", Some(1)),
            (" \t\n1}junk", Some(1)),
            ("}", Some(0)),
            ("-1}", Some(usize::MAX)),
            ("-0}", Some(0)),
            ("99999999999999999999}", Some(usize::MAX)),
            ("-99999999999999999999}", Some(usize::MAX)),
            ("+}", None),
            (" }", None),
            ("1 }", None),
            ("0x1}", None),
            ("yesterday}", None),
            ("1", None),
        ] {
            assert_eq!(number(text.into()), expected, "{text}");
        }
    }
}
