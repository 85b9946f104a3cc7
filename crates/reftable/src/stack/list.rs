use super::TableName;
use bstr::ByteSlice;

/// The name of the file that lists the tables of a stack.
pub(super) const LIST_FILE: &str = "tables.list";

/// What is wrong with a `tables.list`. The line is counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListFault {
    /// The line contains a slash or a NUL byte, or is `.` or `..`.
    #[error("line {0} cannot name a table")]
    Name(usize),
    /// An earlier line has the same name.
    #[error("line {0} names a table for the second time")]
    Repeated(usize),
    /// The last line does not end with a newline; the file may have been truncated.
    #[error("line {0} is not complete")]
    Cut(usize),
}

/// Parses the content of `tables.list`: one name a line, the oldest table first. Empty lines are skipped, as in git.
///
/// # Errors
///
/// The fault of the first line that cannot name a table or is not complete; if there is none, [`ListFault::Repeated`]
/// for a line whose name an earlier line has.
pub fn table_names(content: &[u8]) -> Result<Vec<TableName>, ListFault> {
    let mut names = Vec::with_capacity(content.len().min(1 << 16) / 43 + 1);
    for (at, line) in content.lines_with_terminator().enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else { return Err(ListFault::Cut(at + 1)) };
        if !line.is_empty() {
            names.push((TableName::new(line).ok_or(ListFault::Name(at + 1))?, at + 1));
        }
    }
    match repeated(&names) {
        Some(line) => Err(ListFault::Repeated(line)),
        None => Ok(names.into_iter().map(|(name, _)| name).collect()),
    }
}

fn repeated(names: &[(TableName, usize)]) -> Option<usize> {
    let mut sorted: Vec<_> = names.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1)
}

/// The content of a `tables.list` with these names.
pub(super) fn format<'a>(names: impl IntoIterator<Item = &'a TableName>) -> Vec<u8> {
    let mut content = Vec::new();
    for name in names {
        content.extend_from_slice(name.as_bstr());
        content.push(b'\n');
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(names: &[&str]) -> Vec<TableName> {
        names.iter().map(|name| TableName::new(name.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn a_list_round_trips_and_empty_lines_are_skipped() {
        let tables = names(&["0x1-0x1-a.ref", "2-2.log"]);
        assert_eq!(format(&tables), b"0x1-0x1-a.ref\n2-2.log\n");
        assert_eq!(table_names(&format(&tables)), Ok(tables.clone()));
        assert_eq!(table_names(b"\n0x1-0x1-a.ref\n\n2-2.log\n\n"), Ok(tables));
        assert_eq!(table_names(b""), Ok(vec![]));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        assert_eq!(table_names(b"a.ref\n../b.ref\n"), Err(ListFault::Name(2)));
        assert_eq!(table_names(b"a.ref\n\nb\0.ref\n"), Err(ListFault::Name(3)));
        assert_eq!(table_names(b"b.ref\na.ref\nb.ref\n"), Err(ListFault::Repeated(3)));
        assert_eq!(table_names(b"a.ref\nb.re"), Err(ListFault::Cut(2)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same_but_for_empty_lines(
            content in prop::collection::vec(prop::sample::select(b"ab./\n\n\0".to_vec()), 0..40)
        ) {
            if let Ok(tables) = table_names(&content) {
                let lines = content.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() > 1);
                let lines: Vec<u8> = lines.flatten().copied().collect();
                prop_assert_eq!(format(&tables), lines);
            }
        }
    }
}
