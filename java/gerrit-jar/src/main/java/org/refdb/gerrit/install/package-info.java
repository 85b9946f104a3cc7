/**
 * Puts refdb into a Gerrit site and takes it out again: {@code java -jar refdb-gerrit.jar install SITE}. {@link
 * org.refdb.gerrit.install.Main} reads the command line. {@link org.refdb.gerrit.install.Site} knows what a site looks
 * like. {@link org.refdb.gerrit.install.ConfigFile} edits gerrit.config and leaves all else in it alone.
 */
package org.refdb.gerrit.install;
