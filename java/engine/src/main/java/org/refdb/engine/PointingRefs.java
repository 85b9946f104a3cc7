package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * The refs that point to each of some objects, directly or through a tag.
 *
 * @param version the version of the view; see {@link EngineView#version}
 * @param names for each object, in the order of the request, the names of its refs in the order of their bytes
 */
public record PointingRefs(long version, List<List<String>> names) {
  static PointingRefs unpack(Unpacker answer) {
    long version = answer.i64();
    List<List<String>> names = new ArrayList<>();
    while (answer.hasMore()) {
      names.add(answer.countedTexts());
    }
    return new PointingRefs(version, names);
  }
}
