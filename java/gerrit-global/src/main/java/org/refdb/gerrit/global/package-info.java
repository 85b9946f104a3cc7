/**
 * Gerrit's global ref database on etcd. {@code GlobalRefs} has what it does with refs. By {@code Slots} and
 * {@code Slot} a lost answer is never guessed. {@code Import}, {@code Compare} and {@code Repair} are for administrators. By
 * {@code Watching} and {@code Behind} a node knows of the others' updates. The page
 * docs/decisions/0090 says why, and the model in crates/testkit/tests/global_refs.rs proves it.
 */
package org.refdb.gerrit.global;
