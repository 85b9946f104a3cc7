package org.refdb.gerrit.refs;

import java.util.List;

/**
 * Result of comparing what refdb holds of a project with the disk.
 *
 * @param differences where refdb is wrong, a line each
 * @param broken refs whose files are corrupt or cannot be read, a line each. They are unusable although refdb is right
 *     about them, and prevent garbage collection
 */
public record Verified(List<String> differences, List<String> broken) {}
