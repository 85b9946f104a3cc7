package org.refdb.gerrit.refs;

import java.util.List;
import org.refdb.engine.BrokenRef;

/**
 * Result of comparing the engine's view of a repository with the disk.
 *
 * @param refs number of refs compared
 * @param broken the broken refs, which lists omit
 * @param differences refs that are wrong in the view, a line each
 */
record Findings(long refs, List<BrokenRef> broken, List<String> differences) {}
