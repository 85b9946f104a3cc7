//! The line of a person in a commit or tag: `A U Thor <author@example.com> 1151968725 +0200`.

use super::{
    atom::{EmailForm, Part},
    date::Time,
};
use crate::{
    clock::Clock,
    failure::{Failure, Result},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::space::trim;

/// Appends the part of a person's line that a field shows.
pub fn show(line: &BStr, part: &Part, clock: &Clock<'_>, out: &mut Vec<u8>) -> Result<()> {
    match part {
        Part::Whole => out.extend_from_slice(line),
        Part::Name { .. } => out.extend_from_slice(line.find(b" <").map(|end| &line[..end]).unwrap_or_default()),
        Part::Email { form, .. } => out.extend_from_slice(email(line, *form)),
        Part::Date(form) => {
            let form = form.as_ref().map_err(|message| Failure::Fatal(message.clone()))?;
            if let Some(time) = Time::of(line) {
                out.extend_from_slice(time.show(form, clock).as_bytes());
            }
        }
    }
    Ok(())
}

fn email(line: &BStr, form: EmailForm) -> &[u8] {
    let Some(open) = line.find_byte(b'<') else { return b"" };
    let after = &line[open + 1..];
    let close = after.find_byte(b'>');
    match (form, close) {
        // The first `@` after the `<` ends the part, even if it is not part of the address, or else the first `>`.
        (EmailForm::Local, _) => after.find_byte(b'@').or(close).map_or(b"", |end| &after[..end]),
        (_, None) => b"",
        (EmailForm::Trimmed, Some(close)) => &after[..close],
        (EmailForm::Whole, Some(close)) => &line[open..open + close + 2],
    }
}

/// Returns the name and the address in a line, which mail maps use as a key: `A U Thor <author@example.com>`.
pub fn contact(line: &BStr) -> Option<BString> {
    let open = line.find_byte(b'<')?;
    let close = open + line[open..].find_byte(b'>')?;
    let (name, address) = (trim(&line[..open]), &line[open..=close]);
    let blank: &[u8] = if name.is_empty() { b"" } else { b" " };
    Some([name, blank, address].concat().into())
}

/// Returns the line with another name and address.
pub fn with_contact(line: &BStr, contact: &BStr) -> BString {
    let close = line.find_byte(b'>').map_or(line.len(), |close| close + 1);
    [contact.as_bytes(), &line[close..]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::for_each_ref::date::DateForm;
    use refdb::{Environment, Zone};

    const LINE: &str = "A B <a.b@c.d> 1151968725 +0200";

    fn shown(line: &str, part: &Part) -> String {
        let environment = Environment::empty("/nonexistent");
        let clock = Clock { zone: Zone::of(&environment), now: 0 };
        let mut out = Vec::new();
        show(line.into(), part, &clock, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn email(form: EmailForm) -> Part {
        Part::Email { form, mapped: false }
    }

    #[test]
    fn a_line_falls_into_name_address_and_time() {
        for (part, expected) in [
            (Part::Whole, LINE),
            (Part::Name { mapped: false }, "A B"),
            (email(EmailForm::Whole), "<a.b@c.d>"),
            (email(EmailForm::Trimmed), "a.b@c.d"),
            (email(EmailForm::Local), "a.b"),
            (Part::Date(Ok(DateForm::DEFAULT)), "Tue Jul 4 01:18:45 2006 +0200"),
        ] {
            assert_eq!(shown(LINE, &part), expected);
        }
    }

    /// The values were taken from git 2.55.
    #[test]
    fn odd_lines_show_what_git_shows() {
        for (line, whole, trimmed, local) in [
            ("A <a@x", "", "", "a"),
            ("A a@x> 1 +0000", "", "", ""),
            ("A  < a@x > 1 +0000", "< a@x >", " a@x ", " a"),
            ("A <b <a@x>> 1 +0000", "<b <a@x>", "b <a@x", "b <a"),
            ("A <x> <a@x> 1 +0000", "<x>", "x", "x> <a"),
            ("", "", "", ""),
            ("> x", "", "", ""),
            ("<", "", "", ""),
        ] {
            let all = [EmailForm::Whole, EmailForm::Trimmed, EmailForm::Local].map(|form| shown(line, &email(form)));
            assert_eq!(all, [whole, trimmed, local], "{line}");
            assert!(shown(line, &Part::Date(Ok(DateForm::DEFAULT))).len() <= 31);
        }
    }

    #[test]
    fn a_mail_map_is_asked_for_the_name_and_the_address() {
        for (line, expected) in [
            (LINE, Some("A B <a.b@c.d>")),
            ("  A   B  <a@x>  1 +0000", Some("A   B <a@x>")),
            ("A<a@x>", Some("A <a@x>")),
            ("<a@x> 1", Some("<a@x>")),
            ("A <a@x", None),
            ("A> a@x", None),
        ] {
            assert_eq!(contact(line.into()), expected.map(Into::into), "{line}");
        }
        assert_eq!(with_contact(LINE.into(), "P <q>".into()), "P <q> 1151968725 +0200");
    }
}
