use bstr::{BStr, BString};

/// A message as git stores it, in one line. Runs of white space become one space, and none stays at either end.
pub fn normalize_message(message: &BStr) -> BString {
    let mut out = BString::default();
    for word in message.split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_one_line() {
        for (message, stored) in [("", ""), (" \n", ""), ("a  b", "a b"), ("\ta\n\nb \r\n", "a b")] {
            assert_eq!(normalize_message(message.into()), stored, "{message:?}");
        }
    }
}
