//! Quotes words as a shell understands them, and splits lines into words again.

/// Quotes a word for a shell, if necessary.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,=:~^@+".contains(letter);
    if !word.is_empty() && !word.starts_with('~') && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        wrapped(word)
    }
}

/// Quotes a word of a line for people, if it would otherwise not be seen as one word: an empty one, or one with white
/// space, quotation marks or backslashes.
pub fn legible(word: &str) -> String {
    let is_quoted = |letter: char| letter.is_whitespace() || matches!(letter, '\'' | '"' | '\\');
    if word.is_empty() || word.contains(is_quoted) { wrapped(word) } else { word.to_owned() }
}

fn wrapped(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns the words of a line whose words [`quoted`] or [`legible`] wrote.
pub fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_open) = (Vec::new(), None::<String>, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                is_open = !is_open;
                word.get_or_insert_default();
            }
            '\\' if !is_open => word.get_or_insert_default().extend(letters.next()),
            letter if letter.is_whitespace() && !is_open => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        for (word, expected) in
            [("a~1", "a~1"), ("~/repo", "'~/repo'"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn a_line_has_the_words_of_which_it_was_made() {
        for words in [vec!["git", "-c", "a.b=c d", ""], vec!["it's", "\\", "'", "\"q\"", "\n", "$BUILD/x"], vec![]] {
            for line in
                [quoted, legible].map(|write| words.iter().map(|word| write(word)).collect::<Vec<_>>().join(" "))
            {
                assert_eq!(split(&line), words, "{line}");
            }
        }
        assert_eq!(legible("$BUILD/*"), "$BUILD/*");
    }
}
