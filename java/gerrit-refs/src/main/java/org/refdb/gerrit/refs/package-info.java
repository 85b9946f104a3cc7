/**
 * The lib module: Gerrit's repositories, with refdb's engine as their ref database.
 *
 * <p>Read in this order: {@link org.refdb.gerrit.refs.RefdbDbModule} (how it gets into Gerrit), {@link
 * org.refdb.gerrit.refs.RefdbRepositoryManager} (how a repository is opened, made and forgotten), {@link
 * org.refdb.gerrit.refs.RefdbRepository} (which ref database it gives), {@link org.refdb.gerrit.refs.RefEngine} (where that comes
 * from, and what happens when it cannot be had), {@link org.refdb.gerrit.refs.ShadowRefDatabase} (comparing with JGit),
 * {@link org.refdb.gerrit.refs.Hints} (news between nodes), {@link org.refdb.gerrit.refs.Verifier} (looking for stale refs),
 * {@link org.refdb.gerrit.refs.RefdbAdmin} (what administrators ask).
 */
package org.refdb.gerrit.refs;
