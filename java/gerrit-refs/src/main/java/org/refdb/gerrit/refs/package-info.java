/**
 * The lib module: Gerrit's repositories, with refdb's engine as their ref database.
 *
 * <p>Read {@link org.refdb.gerrit.refs.RefdbDbModule} (how it gets into Gerrit) first. Then comes {@link
 * org.refdb.gerrit.refs.RefdbRepositoryManager} (how a repository is opened, made and forgotten). {@link
 * org.refdb.gerrit.refs.RefdbRepository} gives the ref database. {@link org.refdb.gerrit.refs.RefEngine} has it, or says
 * why there is none. {@link org.refdb.gerrit.refs.ShadowRefDatabase} compares with JGit. {@link
 * org.refdb.gerrit.refs.Hints} are news between nodes. {@link org.refdb.gerrit.refs.Verifier} looks for stale refs. {@link
 * org.refdb.gerrit.refs.RefdbAdmin} answers administrators.
 */
package org.refdb.gerrit.refs;
