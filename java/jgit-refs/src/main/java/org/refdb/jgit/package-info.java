/**
 * refdb's engine as JGit's {@link org.eclipse.jgit.lib.RefDatabase}.
 *
 * <p>{@link org.refdb.jgit.RefdbDatabase} answers for a {@link org.eclipse.jgit.lib.Repository} what JGit's own ref
 * databases would, from the same files. {@link org.refdb.jgit.RefdbRepository} is a repository that uses it.
 */
package org.refdb.jgit;
