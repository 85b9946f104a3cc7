/**
 * Gerrit's global ref database on etcd. {@link org.refdb.gerrit.global.GlobalRefs} has what it does with refs; {@link
 * org.refdb.gerrit.global.Slots} and {@link org.refdb.gerrit.global.Slot} are how a lost answer is never guessed. The page
 * docs/decisions/0090 says why, and the model in crates/testkit/tests/global_refs.rs proves it.
 */
package org.refdb.gerrit.global;
