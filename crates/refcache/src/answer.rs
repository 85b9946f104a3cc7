//! Answers of an open repository, and whether they have to be revalidated before they are given out.

/// An answer from an open repository, in whose folder there may be another repository by now.
pub(crate) enum Answer<T> {
    /// The answer may be given out as it is, for instance because the files that were read for it show that the
    /// repository is still the same, or because the trust settings let a cached value be used without reading a file.
    Validated(T),
    /// The answer is valid only once a check has shown that the folder still holds the repository that was opened.
    NeedsRevalidation(T),
}

impl<T> Answer<T> {
    /// Makes an answer that has to be revalidated if `needs_revalidation`.
    #[inline]
    pub(crate) fn new(value: T, needs_revalidation: bool) -> Self {
        if needs_revalidation { Answer::NeedsRevalidation(value) } else { Answer::Validated(value) }
    }

    /// Converts the value. Whether it has to be revalidated stays the same.
    #[inline]
    pub(crate) fn map<U>(self, then: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Validated(value) => Answer::Validated(then(value)),
            Answer::NeedsRevalidation(value) => Answer::NeedsRevalidation(then(value)),
        }
    }

    /// Converts the value, which may fail. Whether it has to be revalidated stays the same.
    #[inline]
    pub(crate) fn try_map<U, E>(self, then: impl FnOnce(T) -> Result<U, E>) -> Result<Answer<U>, E> {
        Ok(match self {
            Answer::Validated(value) => Answer::Validated(then(value)?),
            Answer::NeedsRevalidation(value) => Answer::NeedsRevalidation(then(value)?),
        })
    }

    /// Returns the value as a part of a larger answer, and sets `needs_revalidation` if this part has to be
    /// revalidated.
    #[inline]
    pub(crate) fn into_part(self, needs_revalidation: &mut bool) -> T {
        match self {
            Answer::Validated(value) => value,
            Answer::NeedsRevalidation(value) => {
                *needs_revalidation = true;
                value
            }
        }
    }
}
