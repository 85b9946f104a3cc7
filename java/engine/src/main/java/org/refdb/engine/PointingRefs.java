package org.refdb.engine;

import java.util.List;

/**
 * The refs that hold an object or a tag that leads to it.
 *
 * @param version the view's, see {@link RefView#version}
 * @param names in order of their bytes
 */
public record PointingRefs(long version, List<String> names) {
  static PointingRefs unpack(Unpacker answer) {
    return new PointingRefs(answer.i64(), answer.texts());
  }
}
