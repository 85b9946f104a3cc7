package org.refdb.gerrit.refs;

import java.util.List;

/**
 * What comparing what refdb has of a project with the disk found.
 *
 * @param differences where refdb is wrong, a line each
 * @param broken refs whose files are no good, a line each. Nobody can use them, though refdb is right about them. While
 *     they are there, garbage is not collected
 */
public record Verified(List<String> differences, List<String> broken) {}
