package org.refdb.gerrit.refs;

import java.util.List;
import org.refdb.engine.BrokenRef;

/**
 * What comparing the engine's view of a repository with the disk found.
 *
 * @param refs how many refs were compared
 * @param broken the refs whose files are no good, which neither has in a list
 * @param differences those that are wrong in the view, a line each
 */
record Findings(long refs, List<BrokenRef> broken, List<String> differences) {}
