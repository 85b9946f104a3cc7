package org.refdb.gerrit.refs;

import java.util.List;

/**
 * What comparing what refdb has of a project with the disk found.
 *
 * @param differences where refdb is wrong, a line each
 * @param broken refs whose files are no good, a line each: refdb is not wrong about them, but nobody can use them, and
 *     garbage is not collected until they are written again or deleted
 */
public record Verified(List<String> differences, List<String> broken) {}
