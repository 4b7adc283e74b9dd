#include "net/object/place.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace weft::net::object {
namespace {

TEST(ObjectName, SaysWhatIsWrongWithAUrl) {
  for (const char* const url : {"http://b/k", "s3://", "s3://bucket", "s3://bucket/", "s3://b/k", "s3://b..d/k"})
    EXPECT_NE(parse_name(url).error().message.find(url), std::string::npos) << url;
  const auto name = parse_name("s3://bucket/a/b c");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->bucket, "bucket");
  EXPECT_EQ(name->key, "a/b c");
  EXPECT_EQ(name->text(), "s3://bucket/a/b c");
}

TEST(Route, HasTheBucketInTheHostAtAmazonAndInThePathElsewhere) {
  Place place;
  place.region = "eu-west-1";
  EXPECT_EQ(route_to(place, "weights", "a b").host, "weights.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(route_to(place, "weights", "a b").path, "/a%20b");
  EXPECT_EQ(route_to(place, "dotted.name", "k").base, "https://s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(route_to(place, "dotted.name", "k").path, "/dotted.name/k");
  place.endpoint = "http://127.0.0.1:9000/below";
  EXPECT_EQ(route_to(place, "weights", "k").base, "http://127.0.0.1:9000");
  EXPECT_EQ(route_to(place, "weights", "k").path, "/below/weights/k");
  EXPECT_EQ(route_to(place, "weights", "").path, "/below/weights");
}

TEST(Place, NeedsCredentialsAndAUrl) {
  unsetenv("AWS_ACCESS_KEY_ID");
  EXPECT_NE(place_of_environment().error().message.find("AWS_ACCESS_KEY_ID is not set"), std::string::npos);
  setenv("AWS_ACCESS_KEY_ID", "id", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000", 1);
  EXPECT_NE(place_of_environment().error().message.find("127.0.0.1:9000"), std::string::npos);
  setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/", 1);
  EXPECT_EQ(place_of_environment()->endpoint, "http://127.0.0.1:9000");
}

}  // namespace
}  // namespace weft::net::object
