//! Answers, and on what they rest.

/// An answer from an open repository.
pub(crate) enum Answer<T> {
    /// Right whatever has become of the folder since.
    Validated(T),
    /// Right only if the folder still holds the repository that was opened.
    NeedsRevalidation(T),
}

impl<T> Answer<T> {
    /// An answer that rests on the repository if `needs_revalidation`.
    #[inline]
    pub(crate) fn new(value: T, needs_revalidation: bool) -> Self {
        if needs_revalidation { Answer::NeedsRevalidation(value) } else { Answer::Validated(value) }
    }

    /// Another answer that rests on the same.
    #[inline]
    pub(crate) fn map<U>(self, then: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Validated(value) => Answer::Validated(then(value)),
            Answer::NeedsRevalidation(value) => Answer::NeedsRevalidation(then(value)),
        }
    }

    /// Another answer that rests on the same, if there is one.
    #[inline]
    pub(crate) fn try_map<U, E>(self, then: impl FnOnce(T) -> Result<U, E>) -> Result<Answer<U>, E> {
        Ok(match self {
            Answer::Validated(value) => Answer::Validated(then(value)?),
            Answer::NeedsRevalidation(value) => Answer::NeedsRevalidation(then(value)?),
        })
    }

    /// The answer for a larger one, which is doubtful as soon as a part of it is.
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
