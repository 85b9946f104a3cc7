package org.refdb.gerrit;

import java.util.List;

/**
 * What comparing the engine's view of a repository with the disk found.
 *
 * @param refs how many refs were compared
 * @param differences those that are wrong in the view, a line each
 */
record Findings(long refs, List<String> differences) {}
