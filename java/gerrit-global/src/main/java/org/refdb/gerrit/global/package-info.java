/**
 * Gerrit's global ref database on etcd. {@code GlobalRefs} has what it does with refs. By {@code Slots} and
 * {@code Slot} a lost answer is never guessed. The page
 * docs/decisions/0090 says why, and the model in crates/testkit/tests/global_refs.rs proves it.
 */
package org.refdb.gerrit.global;
